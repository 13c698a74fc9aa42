def dequantize(q, scale, zero):
    whole = q.float() - zero.float()[:, :, None]
    return whole * scale[:, :, None]
