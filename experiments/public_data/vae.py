"""A generator that is trained on public data: the decoder of a variational autoencoder."""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unstale.seeding import derive, generator


@dataclass(frozen=True)
class Recipe:
    """How a generator is trained."""

    latent: int = 24
    hidden: int = 256
    epochs: int = 25
    batch: int = 100
    lr: float = 0.002


class Coder(nn.Module):
    """An encoder and a decoder for images with values from 0 to 1."""

    def __init__(self, shape: tuple[int, ...], recipe: Recipe) -> None:
        super().__init__()
        self.shape, size = shape, prod(shape)
        self.encoder = nn.Sequential(
            nn.Flatten(),
            nn.Linear(size, recipe.hidden),
            nn.ReLU(),
            nn.Linear(recipe.hidden, 2 * recipe.latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(recipe.latent, recipe.hidden), nn.ReLU(), nn.Linear(recipe.hidden, size)
        )

    def decode(self, z: Tensor) -> Tensor:
        """Return images for latents."""
        return torch.sigmoid(self.decoder(z)).view(len(z), *self.shape)

    def loss(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return the negative evidence lower bound, a mean over images."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        logits = self.decoder(mean + noise * torch.exp(0.5 * log_variance))
        apart = F.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="sum")
        prior = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        return (apart + prior) / len(x)


def train_coder(x: Tensor, recipe: Recipe, seed: int) -> Coder:
    """Return a coder that was trained on images with values from 0 to 1."""
    with torch.random.fork_rng():
        torch.manual_seed(derive(seed, "coder"))  # layers draw their weights from torch's own
        coder = Coder(tuple(x.shape[1:]), recipe)
    rng = generator(seed, "coder training")
    optimizer = torch.optim.Adam(coder.parameters(), lr=recipe.lr)
    for _ in range(recipe.epochs):
        for at in torch.randperm(len(x), generator=rng).split(recipe.batch):
            noise = torch.randn(len(at), recipe.latent, generator=rng)
            optimizer.zero_grad()
            coder.loss(x[at], noise).backward()
            optimizer.step()
    return coder.requires_grad_(False)
