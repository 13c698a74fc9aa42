"""The database of measurements: immutable records whose ids are hashes of their content.

The interface for other packages::

    from kernelkb.record.measurements.rows import create_measurement
    from kernelkb.record.measurements.store import open_store

    create_measurement(kind: MeasurementKind, at: datetime, subject: SubjectRecord, **fields)
        -> Measurement
    open_store(project: Path, url: str | None = None) -> Store    # a context manager
    Store.add(measurements: Iterable[Measurement]) -> int         # number of new records

``identity`` does no I/O and imports no database driver.
"""
