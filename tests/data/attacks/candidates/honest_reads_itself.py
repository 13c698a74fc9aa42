import hashlib
import logging
import os
from pathlib import Path

import torch
import torch.nn as nn


LOG = logging.getLogger(__name__)


class ModelNew(nn.Module):
    """Reads its own source and a variable of the environment, and logs what it found."""

    def forward(self, x):
        own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        LOG.warning("source %s, threads %s", own[:8], os.environ.get("OMP_NUM_THREADS"))
        return torch.softmax(x, dim=-1)
