"""Types of all messages: engine ↔ worker (job.json, result.json) and judge ↔ runner (socket).

Standard library only: the engine imports these modules to build jobs and to read results, the
worker to do the reverse in an interpreter without our dependencies. All messages travel as JSON.
"""
