"""Lightning: ModelCheckpoint with `save_last="link"`, and `ckpt_path="last"`."""

import time

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        self.log("train_loss", loss, prog_bar=True)
        time.sleep(0.15)
        return loss

    def on_train_start(self):
        print(f"starts at epoch {self.current_epoch}, step {self.global_step}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


L.seed_everything(0)
x = torch.randn(640, 16)
loader = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=64, shuffle=True)
checkpoint = ModelCheckpoint(dirpath="checkpoints", save_last="link")
trainer = L.Trainer(max_epochs=120, callbacks=[checkpoint], log_every_n_steps=5)
trainer.fit(LitModel(), loader, ckpt_path="last")
