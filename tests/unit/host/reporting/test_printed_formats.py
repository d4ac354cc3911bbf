"""The progress in whole outputs of public programs and libraries, by format: step, steps, epoch, loss."""

import math

import pytest

from training.host.reporting.lines import Splitter
from training.host.reporting.printed import PrintedLines
from training.host.reporting.reading import may_have_number

Said = list[tuple[int | None, int | None, int | None, float | None]]
BLOCKS = "█" * 10
TICK = "\0"
"""A look of the agent at the log. It reads whole lines and the current drawings of bars."""

FORMATS: dict[str, tuple[str, Said]] = {
    "TensorFlow's DCGAN": (
        "Time for epoch 1 is 11.2 sec\nTime for epoch 2 is 5.1 sec\n",
        [(1, None, 1, None), (2, None, 2, None)],
    ),
    "TensorFlow's CycleGAN": (
        "..........\nSaving checkpoint for epoch 5 at ./ckpt/ckpt-1\nTime taken for epoch 5 is 101.5 sec\n\n",
        [(5, None, 5, None)],
    ),
    "a GAN's losses and its time": (
        (
            "Epoch 3, gen_loss=0.71,disc_loss=1.32\nTime taken for epoch 3 is 5.1 sec\n"
            "Epoch 4, gen_loss=0.72,disc_loss=1.31\n"
        ),
        [(3, None, 3, 0.71), (3, None, 3, None), (4, None, 4, 0.72)],
    ),
    "a GAN of Keras": (
        "Epoch 1/50 - gen_loss: 0.9500 - disc_loss: 0.4750 - time: 1.00s\n",
        [(1, 50, 1, 0.95)],
    ),
    "a GAN that trains its critic first": (
        "Epoch: 2 | D loss: 1.25 | G loss: -0.5\n",
        [(2, None, 2, -0.5)],
    ),
    "PyTorch's DCGAN": (
        (
            "[0/5][0/1583]\tLoss_D: 1.7410\tLoss_G: 4.9012\tD(x): 0.5\tD(G(z)): 0.6 / 0.01\n"
            "[0/5][50/1583]\tLoss_D: 0.5\tLoss_G: 12.3\tD(x): 0.9\tD(G(z)): 0.1 / 0.2\n"
            "[1/5][0/1583]\tLoss_D: 0.4\tLoss_G: 3.25\tD(x): 0.9\tD(G(z)): 0.1 / 0.2\n"
        ),
        [(0, 7915, 0, 4.9012), (50, 7915, 0, 12.3), (1583, 7915, 1, 3.25)],
    ),
    "PyTorch-GAN": (
        (
            "[Epoch 0/200] [Batch 20/938] [D loss: 0.5] [G loss: 0.9]\n"
            "[Epoch 1/200] [Batch 20/938] [D loss: 0.4] [G loss: 0.8]\n"
        ),
        [(20, 187600, 0, 0.9), (958, 187600, 1, 0.8)],
    ),
    "Hugging Face's Trainer without a bar": (
        (
            "{'loss': '0.6919', 'grad_norm': '0.2785', 'learning_rate': '4.9e-05', 'epoch': '0.1'}\n"
            "{'loss': '0.5', 'grad_norm': '0.2785', 'learning_rate': '4.9e-05', 'epoch': '1'}\n"
            "{'eval_loss': '0.4', 'eval_runtime': '1.0', 'epoch': '1'}\n"
            "{'loss': 0.4, 'learning_rate': 4e-05, 'epoch': 2.5}\n"
        ),
        [(None, None, 0, 0.6919), (None, None, 1, 0.5), (None, None, 2, 0.4)],
    ),
    "Hugging Face's Trainer with its bar": (
        (
            f"\r  0%|          | 0/200 [00:00<?, ?it/s]\r 38%|{BLOCKS}| 76/200 [00:00<00:01]{TICK}"
            f"\r 40%|{BLOCKS}| 80/200 [00:02<01:28,  2.21it/s]\r                      \r"
            "{'loss': '0.69', 'grad_norm': '0.28', 'learning_rate': '3e-05', 'epoch': '1.6'}\n"
            f"\r 40%|{BLOCKS}| 80/200 [00:02<01:28,  2.21it/s]{TICK}\n"
            f"\r  0%|          | 0/13 [00:00<?, ?it/s]\x1b[A{TICK}\n\r100%|{BLOCKS}| 13/13 [00:00]\x1b[A{TICK}"
            "\r                      \r{'eval_loss': '0.4', 'eval_runtime': '1.0', 'epoch': '1.6'}\n"
            f"\r 40%|{BLOCKS}| 80/200 [00:02<01:28,  2.21it/s]{TICK}"
            f"\n\rWriting model shards: 100%|{BLOCKS}| 1/1 [00:00<00:00, 22.96it/s]\n{TICK}"
            f"\r100%|{BLOCKS}| 200/200 [00:44<00:00,  2.30it/s]\r                       \r"
            "{'loss': '0.68', 'grad_norm': '0.18', 'learning_rate': '1e-07', 'epoch': '4'}\n"
            f"\r100%|{BLOCKS}| 200/200 [00:44<00:00,  2.30it/s]{TICK}\n"
        ),
        [(80, 200, 1, 0.69), (80, 200, 1, None), (200, 200, 4, 0.68)],
    ),
    "a dictionary of a loop of one's own": (
        '{"epoch": 3, "loss": 0.5, "learning_rate": 0.1}\n',
        [(3, None, 3, 0.5)],
    ),
    "Lightning's bar of tqdm": (
        (
            f"Epoch 0: 100%|{BLOCKS}| 10/10 [00:00<00:00, 50it/s, v_num=0, train_loss=0.3]\n"
            f"Epoch 1: 100%|{BLOCKS}| 10/10 [00:00<00:00, 50it/s, v_num=0, train_loss=0.2]\n"
            "`Trainer.fit` stopped: `max_epochs=2` reached.\n"
        ),
        [(10, None, 0, 0.3), (20, None, 1, 0.2)],
    ),
    "Lightning's bar after a restart": (
        f"Epoch 5:  10%|{BLOCKS}| 1/10 [00:00<00:00, 50it/s, v_num=1, train_loss=0.3]\n",
        [(51, None, 5, 0.3)],
    ),
    "Lightning's bar of rich, drawn only at its end and wrapped": (
        (
            "Epoch 5/39 ━━━━━━━━ 5/10 0:00:00 • 0:00:01 6.35it/s v_num: 0.000      \n"
            "                                            train_loss: 14.330\n"
        ),
        [(55, 400, 5, None), (None, None, None, 14.33)],
    ),
    "Lightning's bar of rich in a wide terminal": (
        (
            "Epoch 0/9 ━━━━━╸━━━━━━ 100/1875 0:00:10 • 0:02:10 13.50it/s v_num: 0.000 train_loss: 0.532\n"
            "Epoch 1/9 ━━━━━━━━━━━━ 1875/1875 0:02:10 • 0:00:00 13.50it/s v_num: 0.000 train_loss: 0.432\n"
        ),
        [(100, 18750, 0, 0.532), (3750, 18750, 1, 0.432)],
    ),
    "a bar of tqdm whose end is unknown": (
        "train: 300it [00:10, 29.9it/s, loss=0.3]\n400it [00:12, 29.9it/s, loss=0.2]\n",
        [(300, None, None, 0.3), (400, None, None, 0.2)],
    ),
    "numbers with separators of thousands": (
        "Step 1,000/10,000 - loss: 1,234.5\nstep 2_000 loss: 1,500\nstep 3000 loss: 0,25\nstep 4000 loss: 3,4\n",
        [(1000, 10000, None, 1234.5), (2000, None, None, 1500.0)],
    ),
    "losses below zero, small, and none": (
        "epoch 1, loss: -0.5\nepoch 2, loss: \N{MINUS SIGN}0.25\nepoch 3, loss: 1.2e-05\nepoch 4, loss: -inf\n",
        [(1, None, 1, -0.5), (2, None, 2, -0.25), (3, None, 3, 1.2e-05), (4, None, 4, -math.inf)],
    ),
    "lines of JSON": (
        (
            '{"step": 100, "loss": 0.25, "lr": 1e-3}\n{"time": "10:00:00", "global_step": 200, "train/loss": 2e-1}\n'
        ),
        [(100, None, None, 0.25), (200, None, None, 0.2)],
    ),
    "a batch and its total": (
        "Batch 100 of 938. Loss: 0.5\nBatch 200 of 938. Loss: 0.4\n",
        [(100, None, None, 0.5), (200, None, None, 0.4)],
    ),
    "an epoch in short": ("Ep 3/10: loss=0.3\nEp 4/10: loss=0.2\n", [(3, 10, 3, 0.3), (4, 10, 4, 0.2)]),
    "a GAN's line of one network": (
        "[Epoch 3/20] [Batch 12/938] [D loss: 0.5]\n",
        [(1888, 18760, 3, None)],
    ),
    "Hugging Face's Trainer without a bar that logs its steps": (
        (
            "***** Running training *****\n  Num examples = 1,000\n  Num Epochs = 3\n"
            "[INFO|trainer.py:2414] 2026-11-28 10:00:00,000 >>   Total optimization steps = 1,125\n"
            "{'loss': 0.69, 'grad_norm': 1.5, 'learning_rate': 4e-05, 'epoch': 0.13}\n"
            "{'loss': 0.5, 'grad_norm': 1.5, 'learning_rate': 4e-05, 'epoch': 1.5}\n"
            "{'eval_loss': 0.4, 'eval_runtime': 1.0, 'epoch': 1.5}\n"
        ),
        [(49, 1125, 0, 0.69), (562, 1125, 1, 0.5)],
    ),
    "PyTorch's MNIST": (
        (
            "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300000\n"
            "\nTest set: Average loss: 0.0500, Accuracy: 9832/10000 (98%)\n\n"
            "Train Epoch: 2 [0/60000 (0%)]\tLoss: 0.100000\n"
        ),
        [(640, None, 1, 2.3), (60000, None, 2, 0.1)],
    ),
    "PyTorch's ImageNet after a restart": (
        "Epoch: [5][  1/10]\tTime  0.3 (  0.3)\tLoss 7.0e-01 (7.0e-01)\tAcc@1  50.00 ( 50.00)\n",
        [(51, None, 5, 0.7)],
    ),
    "YOLOv8": (
        (
            "\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
            f"      1/100      2.1G      1.234     3.456     1.234     23   640: 100%|{BLOCKS}| 8/8 [00:02<00:00]\n"
            f"      Class   Images  Instances    Box(P     R     mAP50  mAP50-95): 100%|{BLOCKS}| 4/4 [00:01]\n"
            f"      2/100      2.1G      1.134     3.356     1.134     23   640: 100%|{BLOCKS}| 8/8 [00:02<00:00]\n"
        ),
        [(8, None, 1, None), (16, None, 2, None)],
    ),
    "YOLO11": (
        "      1/100         0G      1.234     3.456     1.234     23   640: 100% ━━━━━━━━━━━━ 8/8 3.4it/s 2.3s\n",
        [(8, None, 1, None)],
    ),
    "nanoGPT": (
        (
            "step 0: train loss 4.2874, val loss 4.2823\niter 0: loss 4.2664, time 1230.5ms, mfu -100.00%\n"
            "iter 100: loss 3.2000, time 5.00ms, mfu 1.20%\n"
        ),
        [(0, None, None, 4.2874), (0, None, None, 4.2664), (100, None, None, 3.2)],
    ),
    "fastai": (
        (
            "epoch     train_loss  valid_loss  accuracy  time    \n"
            "0         0.501234    0.345678    0.912000  00:12     \n"
            "1         0.401234    0.245678    0.932000  00:12     \n"
        ),
        [(0, None, 0, 0.501234), (1, None, 1, 0.401234)],
    ),
    "skorch": (
        (
            "  epoch    train_loss    valid_acc    valid_loss     dur\n"
            "-------  ------------  -----------  ------------  ------\n"
            "      1        \x1b[36m0.6868\x1b[0m       \x1b[32m0.6000\x1b[0m        \x1b[35m0.6740\x1b[0m  0.0626\n"
        ),
        [(1, None, 1, 0.6868)],
    ),
    "a table with bars": (
        "| Epoch | Train Loss | Val Loss |\n|-------|------------|----------|\n| 1 | 0.5 | 0.6 |\n| 2 | 0.4 | 0.5 |\n",
        [(1, None, 1, 0.5), (2, None, 2, 0.4)],
    ),
    "rows of numbers behind a table of an evaluation": (
        "epoch  valid_loss  time\n0  0.5  00:12\n",
        [],
    ),
    "numbers without a headline": ("1 0.5 0.6\n2 0.4 0.5\n", []),
    "losses by name and nothing of where the training is": ("gen_loss: 0.5, disc_loss: 0.7\n", []),
    "a loop that says how long an epoch took": (
        "Epoch 1/3 took 5.2 s\nFinished epoch 2 in 5.1 seconds\n",
        [(1, 3, 1, None), (2, 3, 2, None)],
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_of_an_output(name: str) -> None:
    text, said = FORMATS[name]
    splitter, printed = Splitter(), PrintedLines()
    lines: list[str] = []
    for piece in text.split(TICK):
        lines += splitter.take(piece.encode())
        lines += [drawing for drawing in splitter.drawings if drawing not in lines[-1:]]
    found = [facts for line in lines if may_have_number(line) and (facts := printed.metrics(line))]
    assert [(one.get("step"), one.get("steps"), one.get("epoch"), one.get("loss")) for one in found] == said
