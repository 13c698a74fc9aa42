def dequantize(q, scale, zero):
    return (q.to(scale.dtype) - zero[..., None].to(scale.dtype)) * scale[..., None]
