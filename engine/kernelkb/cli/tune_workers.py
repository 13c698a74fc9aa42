"""``kb tune --workers``: a search on the devices of this host, or of other hosts."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from kernelkb.cli.tune_options import (
    STOPPED,
    ignore_trial,
    make_report,
    make_tuning_options,
    parse_only,
    write_files,
)
from kernelkb.cli.workers_options import open_workers
from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelkb.cluster.lanes import Lane
    from kernelkb.model.kernels.tuning import TuningResult
    from kernelkb.tune.lanes.trial_recorder import ReportTrial
    from kernelkb.tune.plan import TuningPlan


def search_on_workers(options: Namespace) -> int:
    """Search on workers, and print a result for each model of device."""
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.cli.output import interruptible_measurement, print_record
    from kernelkb.loading.kernels import load_kernel
    from kernelkb.model.kernels.tuning import TuningResults
    from kernelkb.render.text.tuning import format_result
    from kernelkb.tune.on_cluster import SearchRequest, tune_on_cluster

    _refuse_unsupported(options)
    load_kernel(options.kernel, get_project_path())  # an unknown name starts no worker
    plans: list[TuningPlan] = []

    def start_report(plan: TuningPlan, lanes: Sequence[Lane]) -> ReportTrial:
        plans.append(plan)
        return ignore_trial if options.json else _announce(plan, lanes)

    request = SearchRequest(
        options.kernel,
        options.variant,
        options.target,
        options.workload,
        parse_only(options.only),
    )
    with (
        interruptible_measurement(f"tune {options.kernel}", interrupted=STOPPED),
        open_workers(options) as cluster,
    ):
        results = tune_on_cluster(cluster, request, make_tuning_options(options), start_report)
    for plan, result in zip(plans, results, strict=True):
        write_files(_name_files(options, result, len(results)), plan, result)
    lines = [line for one in results for line in (one.device, *format_result(one))]
    return print_record(TuningResults(results=results), lines, as_json=options.json)


def _announce(plan: TuningPlan, lanes: Sequence[Lane]) -> ReportTrial:
    from kernelkb.cli.output import print_lines
    from kernelkb.render.text.tuning import format_plan

    print_lines(format_plan(plan.title, plan.space.describe(), plan.space.values_by_name))
    print_lines(f"  {lane.uuid} of {lane.host}" for lane in lanes)
    return make_report(plan)


def _refuse_unsupported(options: Namespace) -> None:
    if options.why:
        raise BadValueError("--why profiles on this host; leave it out with --workers")
    if options.plan:
        raise BadValueError("--plan starts no workers; leave --workers out, or name --arch")


def _name_files(options: Namespace, result: TuningResult, result_count: int) -> Namespace:
    """Return options whose files carry the name of the device, where there are several."""
    if result_count == 1:
        return options
    device = re.sub(r"[^a-z0-9]+", "-", result.device.lower()).strip("-")
    named = {
        name: path.with_stem(f"{path.stem}-{device}")
        for name in ("page", "export")
        if (path := getattr(options, name)) is not None
    }
    return Namespace(**{**vars(options), **named})
