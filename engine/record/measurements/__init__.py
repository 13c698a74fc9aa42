"""The database of measurements: immutable records, addressed by what they say.

What others need of it::

    from kernelkb.record.measurements.identity import identified
    from kernelkb.record.measurements.store import open_store

    identified(kind: Kind, at: datetime, subject: Subject, **fields) -> Measurement
    open_store(project: Path, url: str | None = None) -> Store    # a context manager
    Store.add(measurements: Iterable[Measurement]) -> int         # how many were new

``identity`` is pure and imports no database.
"""
