"""A small version of PyTorch's ImageNet example: --resume, checkpoint.pth.tar, model_best.pth.tar, meters and lines."""

import argparse
import os
import shutil
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="PyTorch Training")
parser.add_argument("--epochs", default=75, type=int, metavar="N")
parser.add_argument("--resume", default="", type=str, metavar="PATH", help="path to latest checkpoint")
parser.add_argument("-p", "--print-freq", default=2, type=int, metavar="N")


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


class ProgressMeter:
    def __init__(self, num_batches, meters, prefix=""):
        digits = len(str(num_batches))
        self.batch_fmtstr = "[{:" + str(digits) + "d}/" + str(num_batches) + "]"
        self.meters, self.prefix = meters, prefix

    def display(self, batch):
        print("\t".join([self.prefix + self.batch_fmtstr.format(batch), *map(str, self.meters)]), flush=True)


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    start_epoch, best_acc1 = 0, 0.0

    if args.resume:
        if os.path.isfile(args.resume):
            print(f"=> loading checkpoint '{args.resume}'")
            checkpoint = torch.load(args.resume)
            start_epoch = checkpoint["epoch"]
            best_acc1 = checkpoint["best_acc1"]
            model.load_state_dict(checkpoint["state_dict"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            print(f"=> loaded checkpoint '{args.resume}' (epoch {checkpoint['epoch']})")
        else:
            print(f"=> no checkpoint found at '{args.resume}'")

    x = torch.randn(640, 16)
    loader = DataLoader(TensorDataset(x, (x.sum(dim=1) > 0).long()), batch_size=64, shuffle=True)
    for epoch in range(start_epoch, args.epochs):
        acc1 = train(loader, model, criterion, optimizer, epoch, args)
        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
            },
            is_best,
        )


def train(loader, model, criterion, optimizer, epoch, args):
    batch_time, losses, top1 = (
        AverageMeter("Time", ":6.3f"),
        AverageMeter("Loss", ":.4e"),
        AverageMeter("Acc@1", ":6.2f"),
    )
    progress = ProgressMeter(len(loader), [batch_time, losses, top1], prefix=f"Epoch: [{epoch}]")
    end = time.time()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        losses.update(loss.item(), images.size(0))
        top1.update(100.0 * (output.argmax(dim=1) == target).float().mean().item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.3)
        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            progress.display(i + 1)
    return top1.avg


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()
