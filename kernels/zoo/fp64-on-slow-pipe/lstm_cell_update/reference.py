"""Reference of lstm_cell_update."""

import torch


def update_lstm(gates: torch.Tensor, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the hidden state in the gates' dtype and the cell state (samples, width)."""
    entry, keep, candidate, exit_ = gates.to(cells.dtype).unbind(1)
    cell = torch.sigmoid(keep) * cells + torch.sigmoid(entry) * torch.tanh(candidate)
    return (torch.sigmoid(exit_) * torch.tanh(cell)).to(gates.dtype), cell
