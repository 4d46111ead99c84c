"""Celery: `limit_tasks` holds tasks to one rate across all workers."""

from headgate.agent.integrations.workers.celery import limit_tasks as limit_tasks
