"""The image models as people write them in Python, ResNet with torchvision's names; nothing in it knows of ddp-worker."""

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self, channels, side, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 24, 5)
        self.conv2 = nn.Conv2d(24, 32, 3)
        self.fc1 = nn.Linear(32 * (((side - 4) // 2 - 2) // 2) ** 2, 256)
        self.fc2 = nn.Linear(256, classes)

    def forward(self, x):
        x = torch.relu(torch.max_pool2d(self.conv1(x), 2))
        x = torch.relu(torch.max_pool2d(self.conv2(x), 2))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class LeNet(nn.Module):
    def __init__(self, channels, side, classes):
        super().__init__()
        border = 2 if side < 32 else 0
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=border)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * (((side + 2 * border - 4) // 2 - 4) // 2) ** 2, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Mlp(nn.Module):
    def __init__(self, channels, side, classes):
        super().__init__()
        self.fc1 = nn.Linear(channels * side * side, 256)
        self.fc2 = nn.Linear(256, 128)
        self.fc3 = nn.Linear(128, classes)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def shortcut(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        way_round = shortcut(inputs, width, stride)
        self.conv1 = conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = way_round

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        way_round = shortcut(inputs, 4 * width, stride)
        self.conv1 = conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, 4 * width, 1)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = way_round

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, blocks, channels, classes, is_cifar):
        super().__init__()
        self.conv1 = conv(channels, 64, 3) if is_cifar else conv(channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if is_cifar else nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for stage, count in enumerate(blocks):
            width, layers = 64 << stage, []
            for i in range(count):
                layers.append(block(inputs, width, 2 if stage > 0 and i == 0 else 1))
                inputs = width * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def build(name, channels, side, classes):
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(channels * side * side, classes))
    if name in ("convnet", "lenet", "mlp"):
        return {"convnet": ConvNet, "lenet": LeNet, "mlp": Mlp}[name](channels, side, classes)
    block, blocks = {
        "resnet18": (BasicBlock, (2, 2, 2, 2)),
        "resnet34": (BasicBlock, (3, 4, 6, 3)),
        "resnet50": (Bottleneck, (3, 4, 6, 3)),
    }[name]
    return ResNet(block, blocks, channels, classes, side <= 64)
