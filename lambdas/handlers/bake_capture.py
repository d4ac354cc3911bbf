"""Bake, third step: an image of the builder."""

from typing import Any

from lambdas import settings
from lambdas.aws import images
from lambdas.aws.ledger import Ledger, event_row, look_up_row, run_row
from lambdas.core import bake
from lambdas.handlers import attempts, waits
from lambdas.handlers.voice import attempt_of, clock, note
from lambdas.settings import BakeCaptureSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(BakeCaptureSettings)
    run, attempt = attempt_of(event)
    ledger, now = Ledger(yard.table_name), clock()
    records = attempts.await_news(ledger, run, attempt, "capture", event["token"], now, state="Capture")
    attempts.refuse_denied(records, attempt)
    (builder,) = records.attempts[attempt].hosts
    name = bake.baked_name(yard.yard, yard.recipe, run)
    tags = {
        "trainyard:yard": yard.yard,
        "trainyard:run": run,
        "trainyard:recipe": yard.recipe,
        "Name": name,
    }
    image = images.create(builder, name, description=f"Trainyard host, recipe {yard.recipe}", tags=tags)
    ledger.write(
        look_up_row("image", image, run, now=now, attempt=attempt, wait="capture"),
        run_row(run, {"image": image}),
        event_row(run, note("imaging", f"{image} of {builder}", at=now, attempt=attempt)),
    )
    wrong = waits.answer_image(ledger, records, attempt, "capture", images.find(image), now)
    if wrong:
        raise wrong
    return {}
