"""Lines that public programs and libraries print, and the progress read from them."""

import math
import time
from typing import Any

import pytest

from training.host.reporting.lines import Splitter
from training.host.reporting.printed import PrintedLines, RecentLines
from training.host.reporting.reading import read

BAR = "━" * 20
TRAINS = [
    # line; step, steps, epoch, epochs, loss, accuracy
    (f"12/100 {BAR} 5s 12ms/step - accuracy: 0.8000 - loss: 0.5000", (12, 100, None, None, 0.5, 0.8)),
    ("     12/Unknown 5s 12ms/step - accuracy: 0.8 - loss: 0.5", (12, None, None, None, 0.5, 0.8)),
    (" 12/100 [==>.......] - ETA: 5s - loss: 0.5000 - accuracy: 0.8000", (12, 100, None, None, 0.5, 0.8)),
    ("40/40 - 1s - 17ms/step - loss: 0.28 - mae: 0.4 - val_loss: 0.1", (40, 40, None, None, 0.28, None)),
    ("40/40 - 1s - loss: 2.5 - val_loss: 0.4 - 638ms/epoch - 16ms/step", (40, 40, None, None, 2.5, None)),
    ("step 3 loss 0.12", (3, None, None, None, 0.12, None)),
    ("step=3, loss=0.12", (3, None, None, None, 0.12, None)),
    ("step:100/1000 train_loss:3.5 train_time:100ms", (100, 1000, None, None, 3.5, None)),
    ("Step 1,200 | loss: 4.5 | lr 1e-4 | dt: 300ms | tok/sec: 1000", (1200, None, None, None, 4.5, None)),
    ("[3/100] loss: 0.12", (3, 100, None, None, 0.12, None)),
    ("[1,  2000] loss: 2.173", (2000, None, 1, None, 2.173, None)),
    ("loss: 2.303494  [   64/60000]", (64, 60000, None, None, 2.303494, None)),
    ("iter 300: loss 1.2300, time 12.31ms, mfu 12.3%", (300, None, None, None, 1.23, None)),
    ("step 250: train loss 2.4, val loss 2.5", (250, None, None, None, 2.4, None)),
    ("iter 10 / 100, loss 3.4", (10, 100, None, None, 3.4, None)),
    ("Iteration 12, loss = 0.34567890", (12, None, None, None, 0.3456789, None)),
    ("epoch 2/10 - loss: 0.5 - accuracy: 0.8", (None, None, 2, 10, 0.5, 0.8)),
    ("Epoch 3 | train loss 0.4 | val acc 0.9", (None, None, 3, None, 0.4, None)),
    ("Epoch 10/10, Train Loss: 0.1, Train Acc: 98.7%, Val Loss: 0.2", (None, None, 10, 10, 0.1, 0.987)),
    ("Epoch 10 of 20 finished with loss 0.5 in 3.2s", (None, None, 10, 20, 0.5, None)),
    ("Epoch 3 Loss (train): 0.5 Loss (val): 0.6", (None, None, 3, None, 0.5, None)),
    ("Epoch 12: mean training loss 0.5, test accuracy 0.9", (None, None, 12, None, 0.5, None)),
    ("epoch=3 step=300 loss=0.5 val_loss=0.7", (300, None, 3, None, 0.5, None)),
    ("epoch 0, iter 100, loss: 0.9", (100, None, 0, None, 0.9, None)),
    ("{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 1.2}", (None, None, 1.2, None, 0.5, None)),
    ("{'loss': '0.5', 'learning_rate': '5e-05', 'epoch': '1.2'}", (None, None, 1.2, None, 0.5, None)),
    ('{"step": 100, "loss": 1.25}', (100, None, None, None, 1.25, None)),
    (
        "Epoch 0:  30%|███    | 30/100 [00:10<00:20,  3.00it/s, v_num=0, train_loss=0.500]",
        (30, 100, 0, None, 0.5, None),
    ),
    (
        "Epoch 2: 100%|█████| 100/100 [00:10<00:00, 9.9it/s, train_loss_step=0.52, train_loss_epoch=0.6]",
        (100, 100, 2, None, 0.52, None),
    ),
    (" 30%|███    | 30/100 [00:10<00:20,  3.00it/s, loss=0.5, acc=0.8]", (30, 100, None, None, 0.5, 0.8)),
    ("Epoch 1/10:  50%|█████| 5/10 [00:01<00:01, 4.50it/s, loss=0.4]", (5, 10, 1, 10, 0.4, None)),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300000", (640, 60000, 1, None, 2.3, None)),
    (
        "Epoch: [0][  10/5005]\tTime  0.5 ( 0.9)\tLoss 7.0e+00 (7.1e+00)\tAcc@1   0.00 (  0.10)",
        (10, 5005, 0, None, 7.0, None),
    ),
    ("Epoch [1/5], Step [100/600], Loss: 2.1", (100, 600, 1, 5, 2.1, None)),
    (
        "Train: 0 [   0/1251 (  0%)]  Loss: 6.94 (6.94)  Time: 1.234s,  829.00/s",
        (0, 1251, 0, None, 6.94, None),
    ),
    ("Epoch(train)  [1][  50/1000]  lr: 1.0e-03  time: 0.2  loss: 0.5", (50, 1000, 1, None, 0.5, None)),
    (
        "Iter(train) [   50/80000]  lr: 9.9e-03  loss: 2.3  decode.loss_ce: 1.5",
        (50, 80000, None, None, 2.3, None),
    ),
    (
        "[11/20 10:00:00 d2.utils.events]:  eta: 0:00:10  iter: 19  total_loss: 1.2  loss_cls: 0.5  time: 0.2",
        (19, None, None, None, 1.2, None),
    ),
    (
        "I0101 00:00:00.000000 140 basic_session_run_hooks.py:260] loss = 0.5, step = 100 (1.2 sec)",
        (100, None, None, None, 0.5, None),
    ),
    ("INFO:tensorflow:loss = 0.5, step = 101 (0.3 sec)", (101, None, None, None, 0.5, None)),
    ("Step: 50,  Cost: 0.6931", (50, None, None, None, 0.6931, None)),
    (
        "| epoch   1 |   200/ 2928 batches | lr 20.00 | ms/batch 12.50 | loss  7.61 | ppl  2000.00",
        (200, 2928, 1, None, 7.61, None),
    ),
    (
        " iteration       10/  500000 | elapsed time per iteration (ms): 500.0 | lm loss: 1.067E+01 | loss scale: 1 |",
        (10, 500000, None, None, 10.67, None),
    ),
    ("| INFO | train_inner | epoch 001:    100 / 1234 loss=10.5, ppl=1448", (100, 1234, 1, None, 10.5, None)),
    ("[10]\ttrain-logloss:0.3\teval-logloss:0.4", (10, None, None, None, 0.3, None)),
    ("steps: 10 loss: 0.6931 iter time (s): 0.5 samples/sec: 15", (10, None, None, None, 0.6931, None)),
    ("step 3 loss tensor(0.1234, grad_fn=<MeanBackward0>)", (3, None, None, None, 0.1234, None)),
    ("epoch 1 loss np.float32(0.25)", (None, None, 1, None, 0.25, None)),
    ("step 3: the total loss is 0.5.", (3, None, None, None, 0.5, None)),
    ("Training loss (for one batch) at step 200: 0.9876", (200, None, None, None, 0.9876, None)),
    ("Loss after epoch 3: 0.41", (None, None, 3, None, 0.41, None)),
    ("training loss (epoch 3): 0.5", (None, None, 3, None, 0.5, None)),
    (
        "Epoch 1, Loss: 0.12, Accuracy: 96.0, Test Loss: 0.5, Test Accuracy: 90",
        (None, None, 1, None, 0.12, 96.0),
    ),
    ("2026-11-28 12:00:01,123 - INFO - Epoch [1/3] Batch [20/200] Loss: 0.3", (20, 200, 1, 3, 0.3, None)),
    ("Step #10, epoch #1: loss 0.4", (10, None, 1, None, 0.4, None)),
    ("Round 3 loss -0.5", (3, None, None, None, -0.5, None)),
    ("Epoch 2: loss=inf", (None, None, 2, None, math.inf, None)),
]
SAYS_NOTHING = [
    "loss_weight=0.5",
    "step 3 loss_weight=0.5",
    "Loading checkpoint 3/5",
    "Loading checkpoint shards: 100%|██████████| 3/3 [00:10<00:00,  3.4s/it]",
    "Downloading data: 30%|███       | 30.0M/100M [00:10<00:20, 3.00MB/s]",
    "Epoch 1: val_loss improved from inf to 0.50000, saving model to model.keras",
    "Evaluating the model of epoch 1: loss 0.5",
    "Test set: Average loss: 0.0500, Accuracy: 9832/10000 (98%)",
    "Validation: loss 0.5, acc 0.9, step 100",
    "[Eval] step 100 loss 0.5 accuracy 0.5",
    "Validation DataLoader 0:  50%|█████ | 10/20 [00:01<00:01, 9.0it/s, loss=0.5]",
    "| INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.5 | ppl 724",
    "INFO:tensorflow:Saving dict for global step 200: accuracy = 0.9, global_step = 200, loss = 0.3",
    "INFO:tensorflow:Loss for final step: 0.12.",
    "{'eval_loss': 0.4, 'eval_accuracy': 0.9, 'eval_runtime': 1.0, 'epoch': 1.0}",
    "{'train_runtime': 12.3, 'train_samples_per_second': 100.0, 'train_loss': 0.6, 'epoch': 3.0}",
    "Namespace(epochs=10, lr=0.1, loss='mse', loss_weight=0.5, steps=100)",
    "Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "Using loss scale 65536",
    "Best loss: 0.1 at epoch 3",
    "best val_loss 0.1 (epoch 3)",
    "2026-11-28 12:00:00 starting epoch 1",
    "Epoch 3 generator loss 0.5",
    "Epoch 3, gen_loss=0.7",
    "Epoch 3, disc_loss=0.7, gen_gan_loss=0.7",
    "Time for the evaluation is 5.1 sec",
    "Epoch 3 is the best so far",
    "0  0.50  0.60  00:12",
    "kl_loss: 0.1 step: 3",
    "Test accuracy: 0.93, step 3",
    "The step 3 checkpoint was saved",
    "processed 12/100 files",
    "step 3/5: Downloading the data",
    "weight loss 5/10 of step 3",
    "cost of this run: 12.50",
    "accuracy of epoch 3 will be 1:30 later",
]


@pytest.mark.parametrize(("line", "says"), TRAINS, ids=[row[0][:60] for row in TRAINS])
def test_what_a_line_of_the_training_says(line: str, says: tuple[float | None, ...]) -> None:
    found = read(line)
    assert found
    assert (found.at, found.of, found.epoch, found.epochs, found.loss, found.accuracy) == says
    assert PrintedLines().metrics(line) or (found.at is None and found.epoch is None)


@pytest.mark.parametrize("line", SAYS_NOTHING)
def test_a_line_without_a_number_of_the_training_says_nothing(line: str) -> None:
    assert PrintedLines().metrics(line) == {}


def test_lines_of_the_agents_own_and_the_end_of_a_very_long_line_say_nothing() -> None:
    assert PrintedLines().metrics("[trainyard] step 3 loss 0.5") == {}
    assert PrintedLines().metrics("step 3 " + "x" * 5000 + " loss 0.5") == {}


@pytest.mark.parametrize(
    ("line", "pace"),
    [
        (f"1/2 {BAR} 5s 10ms/step - loss: 0.5", 100.0),
        (f"1/2 {BAR} 5s 250us/step - loss: 0.5", 4000.0),
        ("50%|██ | 1/2 [00:10<00:20,  3.50it/s, loss=0.5]", 3.5),
        ("50%|██ | 1/2 [00:10<00:20,  2.00s/it, loss=0.5]", 0.5),
        ("step 1 loss 0.5", None),
    ],
)
def test_how_fast_it_is(line: str, pace: float | None) -> None:
    assert PrintedLines().metrics(line).get("steps_per_second") == pace


def seen(*lines: str) -> list[dict[str, Any]]:
    """Return the progress in these lines, one after another."""
    printed = PrintedLines()
    return [facts for line in lines if (facts := printed.metrics(line))]


def steps(*lines: str) -> list[int | None]:
    return [facts.get("step") for facts in seen(*lines)]


def keras(at: int, of: int = 40, loss: float = 0.5) -> str:
    return f"{at}/{of} {BAR} 0s 2ms/step - loss: {loss}"


def test_keras_counts_on_over_its_epochs_and_an_evaluation_moves_nothing() -> None:
    evaluation = [keras(1, 7), keras(7, 7), keras(1), keras(40)]
    found = seen("Epoch 1/2", keras(1), keras(40), "Epoch 2/2", keras(1), keras(40), *evaluation)
    assert [(each["step"], each["steps"], each["epoch"]) for each in found] == [
        (1, 80, 1), (40, 80, 1), (41, 80, 2), (80, 80, 2),
    ]  # fmt: skip


def test_keras_fits_of_one_epoch_have_no_headline() -> None:
    assert steps(keras(1), keras(40), keras(7, 7), keras(1), keras(40)) == [1, 40, 41, 80]


def test_a_bar_says_nothing_of_how_many_epochs_there_will_be() -> None:
    bars = [f"{at}%|██ | {at}/100 [00:10<00:20, 3.00it/s, loss=0.5]" for at in (1, 100, 1, 50)]
    assert steps(*bars) == [1, 100, 101, 150]
    assert not any("steps" in each for each in seen(*bars))


def test_lightning_counts_its_epochs_from_zero() -> None:
    bars = [
        f"Epoch {epoch}: {at}%|██ | {at}/100 [00:10<00:20, 3.00it/s, train_loss=0.5]"
        for epoch in (0, 1, 2)
        for at in (1, 100)
    ]
    assert steps(*bars) == [1, 100, 101, 200, 201, 300]


def test_steps_that_begin_again_with_an_epoch_are_counted_on() -> None:
    assert steps(*(f"[{epoch}, {at:5d}] loss: 0.5" for epoch in (1, 2) for at in (2000, 4000))) == [
        2000, 4000, 6000, 8000,
    ]  # fmt: skip
    assert steps("Epoch 1/2", "step 1/20 - loss: 1", "step 20/20 - loss: 1", "Epoch 2/2", "step 1/20 - loss: 1") == [
        1, 20, 21,
    ]  # fmt: skip


def test_the_loop_of_keras_guide_counts_on_over_its_epochs() -> None:
    lines = [
        line
        for epoch in (0, 1)
        for line in (
            f"Start of epoch {epoch}",
            "Training loss (for one batch) at step 0: 0.9",
            "Seen so far: 64 samples",
            "Training loss (for one batch) at step 200: 0.5",
            "Training acc over epoch: 0.8311",
            "Validation acc: 0.9",
        )
    ]
    assert [facts["step"] for facts in seen(*lines) if "step" in facts] == [0, 200, 200, 400]
    assert [facts["accuracy"] for facts in seen(*lines) if "accuracy" in facts] == [0.8311, 0.8311]


def test_the_sum_of_an_epoch_does_not_set_the_step_back() -> None:
    found = seen(
        "epoch 1 step 100 loss 0.5", "Epoch 1 done, train loss 0.4, val loss 0.3", "epoch 2 step 200 loss 0.3"
    )
    assert [(each.get("step"), each["loss"]) for each in found] == [(100, 0.5), (None, 0.4), (200, 0.3)]


def test_a_program_that_counts_epochs_alone_has_epochs_for_steps() -> None:
    assert seen("Epoch 1/3 loss 0.5") == [{"step": 1, "steps": 3, "epoch": 1, "loss": 0.5}]
    assert steps("Epoch 1", "loss: 0.5", "Epoch 2", "loss: 0.4") == [1, 2]


def test_steps_of_two_processes_that_print_beside_each_other_never_go_far_back() -> None:
    bars = [f"{at}%|██ | {at}/100 [00:10<00:20, 3.00it/s, loss=0.5]" for at in (50, 49, 52, 51, 53)]
    assert steps(*bars) == [50, 52, 53]


def test_another_way_of_counting_moves_nothing_unless_it_goes_on() -> None:
    stray = "30%|██ | 30/100 [00:10<00:20, 3.00it/s, loss=0.5]"
    assert steps("step 5 loss 1", stray, "step 6 loss 1") == [5, 6]
    bars = [f"{at}%|██ | {at}/100 [00:10<00:20, 3.00it/s, loss=0.5]" for at in range(30)]
    assert steps("step 5 loss 1", *bars)[-1] == 5 + 29


def test_hugging_faces_trainer_has_its_loss_in_a_line_and_its_step_in_the_bar_behind() -> None:
    found = seen(
        " 10%|█   | 10/100 [00:10<00:20, 3.00it/s]",
        "{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.3}",
        "{'eval_loss': 0.4, 'epoch': 0.3}",
        "Downloading:  50%|█   | 60/70 [00:10<00:20, 3.00it/s]",
        " 50%|█   | 35/70 [00:10<00:20, 3.00it/s]",
        " 11%|█   | 11/100 [00:10<00:20, 3.00it/s]",
        "{'loss': 0.4, 'learning_rate': 4e-05, 'epoch': 0.6}",
        " 20%|█   | 20/100 [00:10<00:20, 3.00it/s]",
    )
    assert [(each["step"], each["steps"], each["loss"]) for each in found] == [(11, 100, 0.5), (20, 100, 0.4)]


def test_numbers_below_the_headline_of_an_evaluation_are_not_the_trainings() -> None:
    quickstart = [
        "Epoch 1",
        "-------",
        "loss: 2.3  [   64/60000]",
        "Test Error: ",
        " Accuracy: 65.0%, Avg loss: 1.07",
    ]
    assert seen(*quickstart) == [{"step": 64, "epoch": 1, "loss": 2.3}]


def test_a_loss_that_became_nan_is_read() -> None:
    (facts,) = seen("iter 260: loss nan, time 3ms")
    assert (facts["step"], math.isnan(facts["loss"])) == (260, True)


def test_a_bar_is_read_by_its_last_whole_drawing() -> None:
    splitter = Splitter()
    splitter.take(f"Epoch 1/2\n\r{keras(1)}".encode())
    assert splitter.drawings == []
    splitter.take(b"\x08" * 80 + b"\r" + keras(12)[:-2].encode())
    assert splitter.drawings == [keras(1)]


def test_lines_that_say_nothing_cost_nothing() -> None:
    printed, line = (
        PrintedLines(),
        "2026-11-28 12:00:00 INFO a line of some length that has none of the words " * 3,
    )
    began = time.process_time()
    for _ in range(20_000):
        printed.metrics(line)
    assert (time.process_time() - began) / 20_000 < 20e-6


def test_the_last_line_of_an_epoch_stays_beside_a_bar_that_is_drawn_very_often() -> None:
    recent = RecentLines()
    for epoch in (1, 2):
        for step in range(1, 501):
            bar = "=" * (step // 25)
            recent.add(f"Epoch {epoch}: {step}/500 [{bar}>..] - 1s 3ms/step - loss: {1 / step:.4f}")
        recent.add(f"{epoch}: 500/500 - loss: 0.1000 - val_loss: 0.{epoch}")
    lines = recent.take()
    assert len(lines) == 20
    assert [line for line in lines if "val_loss" in line] == [
        "1: 500/500 - loss: 0.1000 - val_loss: 0.1",
        "2: 500/500 - loss: 0.1000 - val_loss: 0.2",
    ]
    assert lines[-2].startswith("Epoch 2: 500/500")
    assert recent.take() == []
