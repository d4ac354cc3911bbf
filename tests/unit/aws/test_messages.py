"""Notifications: a subject that SNS would refuse does not prevent the end of a run."""

from lambdas.aws import messages
from lambdas.core.notifications import Notification
from tests.support.recorded import Recorded, answering
from trainyard.protocol.webhooks import NotificationKind


def test_of_a_subject_goes_what_sns_takes() -> None:
    with answering(Recorded(hosts={})) as account:
        notification = Notification("a run\nof 深 " + "x" * 100, ["all of it: 深"], kind=NotificationKind.END)
        messages.publish("arn:aws:sns:us-east-1:1:notices", notification)
    ((subject, text),) = account.notices
    assert subject == "a run?of ? " + "x" * 89
    assert text == "all of it: 深\n"
