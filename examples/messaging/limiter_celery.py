"""A Celery application whose mails keep to one rate over all workers.

headgate up                                               # elsewhere
cd examples/messaging
celery -A limiter_celery worker --concurrency 4           # on each machine
python limiter_celery.py 50                               # send 50 mails

MAIL_BROKER is redis://..., amqp://..., or a folder that the workers share.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

from celery import Celery

import headgate
from headgate.celery import limit_tasks

URL = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")
BROKER = os.environ.get("MAIL_BROKER", "redis://127.0.0.1:6379/0")

app = Celery("limiter_celery")
app.conf.broker_url = "filesystem://" if BROKER.startswith("/") else BROKER
if BROKER.startswith("/"):
    folders = {name: Path(BROKER, name) for name in ("queue", "control")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    app.conf.broker_transport_options = {
        "data_folder_in": str(folders["queue"]),
        "data_folder_out": str(folders["queue"]),
        "control_folder": str(folders["control"]),
        "polling_interval": 0.1,
    }

# The mail provider's quota is tenant "mailer"; each worker's main process has an agent.
limit_tasks(app, partial(headgate.connect, URL), {"mail": {"tenant": "mailer"}})


@app.task(name="mail", ignore_result=True)
def mail(number: int, log: str) -> None:
    """Write when and by whom it was done."""
    with Path(log).open("a") as out:
        out.write(f"{number} {os.getpid()} {os.getppid()} {time.time()}\n")


if __name__ == "__main__":
    many, log = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "/dev/stdout"
    for number in range(many):
        mail.delay(number, log)
    print(f"sent {many}")
