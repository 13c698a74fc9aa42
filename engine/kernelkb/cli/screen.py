"""Environments, steps and triages as a terminal gets them, in colour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from kernelkb.actions.history.record_result import StepListener
from kernelkb.cli.output import PARTLY_RECORDED, interruptible_measurement, print_lines
from kernelkb.cli.terminal import Activity, make_console, make_text
from kernelkb.model.answers.triage import FixOutcome, Triage
from kernelkb.model.records.measurement import Environment
from kernelkb.model.records.session import Step
from kernelkb.progress import ProgressEvent, progress_listener
from kernelkb.record.session_text import describe_falsifier
from kernelkb.render.text.answers import format_brief, format_speedup
from kernelkb.render.text.measurements import format_data_lines
from kernelkb.render.text.steps import format_next_lines
from kernelkb.units import format_duration

_STATUS_MARKS = {"ok": ("ok", "green"), "warning": ("!!", "yellow"), "failure": ("NO", "bold red")}
_NAME_WIDTH = 22


def print_environment(found: Environment) -> None:
    """Print a line for each thing that was looked at."""
    console = make_console(soft_wrap=True)
    for line in found.lines:
        console.print(_format_row(line.status, line.name, line.found))
        if line.cure:
            console.print(make_text(f"     cure: {line.cure}"))


@contextmanager
def watch_steps(*, quiet: bool) -> Iterator[StepListener]:
    """Yield a reporter: live on a terminal, a plain line for each finished step in a pipe."""
    console = make_console(soft_wrap=True)
    activity = Activity("starting")
    live = console.status(activity) if console.is_terminal and not quiet else None

    def print_step(name: str, variant: str | None, step: Step | None) -> None:
        what = f"{name} {variant}" if variant else name
        if step is None:
            activity.text = what
            return
        console.print(_format_row(step.status, what, f"{step.found} ({step.seconds:.1f} s)"))
        if step.cure:
            console.print(make_text(f"     cure: {step.cure}"))

    def show_progress(event: ProgressEvent) -> None:
        activity.text = event.text

    with interruptible_measurement(interrupted=PARTLY_RECORDED):
        if live is None:
            yield print_step
        else:
            with live, progress_listener(show_progress):
                yield print_step


def print_triage(result: Triage) -> None:
    """Print the first answer, the comparison, and where the record is."""
    for seen in result.examined[:1]:
        if seen.profile:
            print_lines(["", "Evidence", *(f"  {line}" for line in seen.profile.evidence)])
            print_lines(format_data_lines(seen.profile.data))
        if seen.answer:
            print_lines(["", *format_brief(seen.answer)])
    print_lines(["", *_iter_result_lines(result)])
    last = result.examined[-1].answer if result.examined else None
    print_lines(format_next_lines(last["change"] if last else None, result.next))


def _iter_result_lines(result: Triage) -> Iterator[str]:
    for seen in result.examined:
        if seen.bench and seen.bench.candidate_us and seen.bench.interval:
            low, high = seen.bench.interval
            time = format_duration(seen.bench.candidate_us)
            speed = f"{seen.bench.speedup:.3g}x of {seen.bench.baseline} [{low:.3g}, {high:.3g}]"
            yield f"{seen.variant:14} {time:>10}  {speed}"
    if result.followed:
        yield from _format_fix_outcome(result)
    if result.session:
        yield f"recorded in {result.session}; kb session show prints it"
    yield f"{result.outcome} in {result.seconds:.1f} s"


def _format_fix_outcome(result: Triage) -> Iterator[str]:
    done = result.followed
    if done is None:
        return
    gain = done.predicted
    predicted = f"predicted {format_speedup(gain)}, " if gain else ""
    measured = _format_measured_gain(done)
    yield f"{', '.join(done.fixes)} applied as {done.after}: {predicted}{measured}"
    for decision in result.decisions:
        if decision.falsifier:
            yield f"  {decision.bottleneck}: {describe_falsifier(decision)}"


def _format_measured_gain(done: FixOutcome) -> str:
    if done.measured is None or done.interval is None:
        return f"not measured: {done.unmeasured}"
    low, high = done.interval
    faster = "" if done.confirmed else ", not confirmed to be faster"
    cause = f"; cause {done.cause}" if done.cause else ""
    gain = {"below": "; gain below the interval", "above": "; gain above the interval"}
    told = gain.get(done.gain or "", "; gain inside the interval" if done.gain else "")
    return f"measured {done.measured:.3g}x [{low:.3g}, {high:.3g}]{faster}{cause}{told}"


def _format_row(status: str, what: str, found: str) -> Text:
    mark, style = _STATUS_MARKS[status]
    name = make_text(f" {what:{_NAME_WIDTH}} ")
    name.stylize("bold")
    return Text.assemble((f"{mark:3}", style), name, make_text(found))
