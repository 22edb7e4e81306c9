"""The tools Bash and TaskStop, and background tasks."""
