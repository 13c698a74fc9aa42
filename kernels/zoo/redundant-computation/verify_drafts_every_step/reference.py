"""Reference of verify_drafts_every_step."""

import torch


def verify(
    target: torch.Tensor,
    draft: torch.Tensor,
    drafted: torch.Tensor,
    coins: torch.Tensor,
    noise: torch.Tensor,
    bonus: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the number of accepted drafts, and the token recovered at the first rejected one."""
    wide, steps = coins.dtype, target.shape[1]
    chosen = drafted.long()[..., None]
    chances = target.gather(2, chosen)[..., 0].to(wide)
    guesses = draft.gather(2, chosen)[..., 0].to(wide)
    is_accepted = coins * guesses < chances
    accepted = is_accepted.long().cumprod(1).sum(1)
    rows = torch.arange(len(accepted), device=target.device)
    last = accepted.clamp(max=steps - 1)
    left, right = target[rows, last].to(wide), draft[rows, last].to(wide)
    recovered = ((left - right).clamp_min(0) * noise).argmax(1)
    tokens = torch.where(accepted == steps, bonus.long(), recovered)
    return accepted.to(torch.int32), tokens.to(torch.int32)
