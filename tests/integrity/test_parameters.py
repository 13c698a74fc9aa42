"""Parameters that a task's model leaves at ones and zeros are drawn: leaving them out is wrong."""

import pytest
import torch
from task_checks import check_task, make_module, make_task

from kernelkb.measure.worker.shared.python_files import (
    draw_constants,
    draw_matching_constants,
)

SEED = 5


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.scale = torch.nn.Parameter(torch.ones(6))
        self.slope = torch.nn.Parameter(torch.tensor(0.25))
        self.register_buffer("mask", torch.ones(6))
        self.eval()

    def forward(self, x):
        return torch.prelu(self.norm(self.linear(x)) * self.scale, self.slope) * self.mask


class OtherNames(torch.nn.Module):
    """The same without the layers, in an order of its own for what keeps its name."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(0.25))
        linear = torch.nn.Linear(4, 6)
        self.w = torch.nn.Parameter(linear.weight.detach().t().contiguous())
        self.b = torch.nn.Parameter(linear.bias.detach().clone())
        self.gain, self.shift = (
            torch.nn.Parameter(torch.ones(1, 6)),
            torch.nn.Parameter(torch.zeros(6)),
        )
        self.scale = torch.nn.Parameter(torch.ones(6))
        self.statistics = torch.nn.Module()
        self.statistics.register_buffer("running_mean", torch.zeros(6))
        self.statistics.register_buffer("running_var", torch.ones(6))

    def forward(self, x):
        found = self.statistics
        y = (x @ self.w + self.b - found.running_mean) * torch.rsqrt(found.running_var + 1e-5)
        y = (y * self.gain + self.shift) * self.scale
        return torch.where(y > 0, y, y * self.slope)


def make(kind):
    torch.manual_seed(SEED)
    return kind()


def test_constants_are_drawn_around_their_value_and_the_rest_stays():
    module, plain = make(Norm), make(Norm)
    draw_constants(module, SEED)

    assert 0.5 <= module.norm.running_var.min() < module.norm.running_var.max() <= 1.5
    assert -0.5 <= module.norm.bias.min() < module.norm.bias.max() <= 0.5
    assert module.norm.bias.abs().max() > 0.01
    assert module.slope != plain.slope
    assert torch.equal(module.linear.weight, plain.linear.weight)
    assert torch.equal(module.mask, plain.mask)
    assert module.norm.num_batches_tracked == 0


def test_drawn_constants_follow_from_the_seed():
    first, again, other = make(Norm), make(Norm), make(Norm)
    for module, seed in ((first, 1), (again, 1), (other, 2)):
        draw_constants(module, seed)

    assert torch.equal(first.scale, again.scale)
    assert not torch.equal(first.scale, other.scale)
    assert torch.equal(first.scale, first.norm.weight)  # however a candidate names or orders them


@pytest.mark.parametrize("kind", [Norm, OtherNames])
def test_a_candidate_gets_the_same_values_also_under_other_names(kind):
    reference, candidate = make(Norm), make(kind)
    missing = draw_matching_constants(candidate, make(Norm), SEED)
    draw_constants(reference, SEED)
    x = torch.randn(9, 4)

    assert missing == []
    assert torch.allclose(candidate(x), reference(x), atol=1e-5)


def test_what_a_candidate_lacks_is_named():
    class Without(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 6)
            self.norm = torch.nn.BatchNorm1d(6)

    assert draw_matching_constants(make(Without), make(Norm), SEED) == ["scale", "slope"]
    assert draw_matching_constants(object(), make(Norm), SEED)[0] == "scale"


NORM_TASK = make_task(
    "return self.norm(x) * self.scale",
    "[torch.randn(64, 48)]",
    "self.norm = nn.LayerNorm(48)\nself.scale = nn.Parameter(torch.ones(48))",
)


@pytest.mark.defends(
    "R1",
    attack="leave out weights and biases, which are ones and zeros",
    defence="constant parameters are drawn",
)
def test_a_candidate_without_the_weights_is_incorrect_and_the_cure_names_one(project):
    found = check_task(project, NORM_TASK, make_module("ModelNew", "return F.layer_norm(x, (48,))"))

    assert found.status == "incorrect"
    assert "no counterpart of the parameter scale" in found.cure


@pytest.mark.slow
def test_a_candidate_that_holds_the_weights_by_other_names_is_correct(project):
    init = "norm = nn.LayerNorm(48)\nself.w, self.b = norm.weight, norm.bias\n"
    init += "self.s = nn.Parameter(torch.ones(48))"
    body = "return F.layer_norm(x, (48,), self.w, self.b) * self.s"
    found = check_task(project, NORM_TASK, make_module("ModelNew", body, init))

    assert found.status == "correct", found.detail
    assert len(found.hidden_inputs) >= 6
