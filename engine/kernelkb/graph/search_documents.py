"""Lists what the search looks through: each entry of the knowledge, and each command, as texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from kernelkb.graph.build import Graph
from kernelkb.graph.search_index import RAW_NAME, Document, split_words
from kernelkb.model.entries.bottleneck import Bottleneck, iter_comparisons
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.quantities import Architecture, Device, Metric, list_quantities
from kernelkb.model.entries.workflow import Phase, Precheck, StopRule

_GRAPH_KINDS = frozenset(
    ("bottleneck", "symptom", "fix", "pattern", "tree", "guard", "metric", "threshold")
)
_UNINDEXED_FIELDS = frozenset(
    (
        "sources", "unless", "evidence", "group", "target", "targets", "level", "cases",
        "falsifier", "raw", "derive", "recognised_by", "effects", "captures", "counterexample",
        "log_patterns", "symptom_of", "undoes", "conflicts", "bottlenecks", "patterns", "origin",
    )
)  # fmt: skip
"""Fields whose words are about other entries, or no words at all."""


def list_documents(
    graph: Graph, knowledge: Knowledge, commands: Mapping[str, str]
) -> Iterator[Document]:
    """Yield a document for each entry of the knowledge, and for each command.

    Args:
        graph: That of the knowledge.
        knowledge: The entries, and the words that people use for them.
        commands: What each command does, by how it is written, such as ``kb bench``.
    """
    also = {entry.id: " ; ".join(entry.also) for entry in knowledge.search_terms.entries}
    groups = [
        [f" {' '.join(split_words(phrase))} " for phrase in group]
        for group in knowledge.search_terms.synonyms
    ]
    for document in _iter_plain_documents(graph, knowledge, commands):
        names = also.get(document.id, "")
        named = document._replace(
            also=f"{document.also} ; {names}",
            raw_names=(*document.raw_names, *RAW_NAME.findall(names)),
        )
        yield _add_synonyms(named, groups)


def _iter_plain_documents(
    graph: Graph, knowledge: Knowledge, commands: Mapping[str, str]
) -> Iterator[Document]:
    metrics = {metric.id: metric for metric in knowledge.catalogue.metrics}
    for node, data in graph.nodes(data=True):
        record = data.get("record")
        if data["kind"] in _GRAPH_KINDS and record is not None:
            entry_id = node.partition(":")[2]
            yield Document(
                data["kind"],
                entry_id,
                _get_title(record),
                also=_list_names_in_reports(record),
                body=_join_text(record),
                raw_names=record.raw.get("ncu", ()) if isinstance(record, Metric) else (),
                read_names=tuple(_iter_read_names(record, metrics)),
            )
    flow = knowledge.workflow
    steps: tuple[Phase | Precheck | StopRule, ...]
    steps = (*flow.phases, *flow.preflight, *flow.stop_rules)
    for step in steps:
        yield Document("workflow", step.id, _get_title(step), "", _join_text(step))
    yield from (_describe_device(device) for device in knowledge.devices.devices)
    yield from (_describe_architecture(arch) for arch in knowledge.devices.architectures)
    for name, summary in commands.items():
        yield Document("command", name, summary, "command", "")


def _describe_device(device: Device) -> Document:
    names = " ; ".join((*device.aliases, "GPU", "memory bandwidth", "number of SMs", "peak TFLOPS"))
    body = "clock L2 cache size power fp64 fp32 tf32 fp16 bf16 fp8 fp4 compute capability"
    return Document("device", device.id, device.title, names, body)


def _describe_architecture(arch: Architecture) -> Document:
    names = (
        f"{arch.title} ; {arch.family or ''} ; compute capability {arch.cc} ; architecture ; "
        "limits ; shared memory ; registers ; threads"
    )
    body = "warps blocks of an SM, carve-out, occupancy, barriers, cluster size, latency"
    return Document("architecture", arch.cc, arch.title, names, body)


def _list_names_in_reports(record: BaseModel) -> str:
    """Return what the details page of Nsight Compute calls a metric, as ``section/title``."""
    names = record.raw.get("ncu-details", ()) if isinstance(record, Metric) else ()
    return " ; ".join(name.rpartition("/")[2] for name in names)


def _iter_read_names(record: BaseModel, metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Yield the counters that a bottleneck's condition reads, directly or by a derived metric."""
    if not isinstance(record, Bottleneck):
        return
    for comparison in iter_comparisons(record.when):
        metric = metrics.get(comparison.metric)
        if metric is None:  # a fact of the device
            continue
        operands = (name for formula in metric.derive for name in list_quantities(formula))
        for name in (metric.id, *operands):
            if name in metrics:
                yield from metrics[name].raw.get("ncu", ())


def _add_synonyms(document: Document, groups: list[list[str]]) -> Document:
    """Return a document in which a word or phrase of a group of synonyms brings the others."""
    names = _find_synonyms(f"{document.id} {document.title} {document.also}", groups)
    body = _find_synonyms(document.body, groups)
    return document._replace(
        also=" ; ".join((document.also, *names)), body=" ".join((document.body, *body))
    )


def _find_synonyms(text: str, groups: list[list[str]]) -> Iterator[str]:
    padded = f" {' '.join(split_words(text))} "
    for group in groups:
        if any(phrase in padded for phrase in group):
            yield from (phrase for phrase in group if phrase not in padded)


def _join_text(record: BaseModel) -> str:
    fields = (field for field in type(record).model_fields if field not in _UNINDEXED_FIELDS)
    return " ; ".join(text for field in fields for text in iter_strings(getattr(record, field)))


def iter_strings(value: object) -> Iterator[str]:
    """Yield each text in nested records, lists and mappings, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseModel):
        yield _join_text(value)
    elif isinstance(value, Mapping):
        yield from iter_strings((*value.keys(), *value.values()))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from iter_strings(inner)


def _get_title(record: BaseModel) -> str:
    for field in ("title", "do", "check", "because", "why", "when"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
