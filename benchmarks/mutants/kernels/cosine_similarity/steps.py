def cosine_similarity(x, z):
    a, b = x.double(), z.double()
    dot = (a * b).sum(dim=1)
    left = (a * a).sum(dim=1).sqrt().clamp(min=1e-8)
    right = (b * b).sum(dim=1).sqrt().clamp(min=1e-8)
    return (dot / (left * right)).float()
