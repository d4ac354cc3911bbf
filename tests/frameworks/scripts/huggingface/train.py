"""Hugging Face's Trainer: a model from its configuration, checkpoint-N folders, the last of them after a restart."""

import time
from pathlib import Path

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(5, 100, (count, 16), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": int(ids[0] > 50)}


class Pause(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        print(f"starts at global step {state.global_step}", flush=True)

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.4)


config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    num_labels=2,
)
arguments = TrainingArguments(
    output_dir="results",
    num_train_epochs=12,
    per_device_train_batch_size=16,
    logging_steps=5,
    save_steps=15,
    save_total_limit=2,
    report_to="none",
    use_cpu=True,
)
trainer = Trainer(
    BertForSequenceClassification(config), arguments, train_dataset=Sentences(800), callbacks=[Pause()]
)
last_checkpoint = get_last_checkpoint("results") if Path("results").is_dir() else None
trainer.train(resume_from_checkpoint=last_checkpoint)
trainer.save_model("results/final")
