"""Workers on many GPUs and hosts, by Dask distributed.

``open_cluster(parse_workers(text))`` in ``opening.py`` and ``choice.py`` is the way in; the
``Cluster`` that it gives has the lanes, submits tasks, and delivers each end once.
"""
