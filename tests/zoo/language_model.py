"""A recurrent language model as classic scripts train it: chunks of a long text, seq-first, no DataLoader."""

import argparse

import torch
from torch import nn

VOCABULARY, WIDTH, TOKENS = 100, 32, 200_000


class LanguageModel(nn.Module):
    """Embedding, LSTM, decoder; its input is (length, batch)."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH)
        self.decoder = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output).view(-1, VOCABULARY), hidden

    def init_hidden(self, batch_size):
        return torch.zeros(1, batch_size, WIDTH), torch.zeros(1, batch_size, WIDTH)


class OwnSGD:
    """An optimizer that torch does not know."""

    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr

    def step(self):
        for parameter in self.parameters:
            parameter.data = parameter.data - self.lr * parameter.grad


def update_by_hand(model, how, lr):
    if how == "data":
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-lr)
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(lr * parameter.grad)


def batchify(tokens, batch_size):
    """Return the text as columns, one per sample of the batch."""
    length = tokens.size(0) // batch_size
    return tokens[: length * batch_size].view(batch_size, -1).t().contiguous()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--micro_batches", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--update", choices=("torch", "data", "no_grad", "own"), default="torch")
    args = parser.parse_args()
    torch.manual_seed(0)
    source = batchify(torch.randint(0, VOCABULARY, (TOKENS,)), args.batch_size)
    model, loss_of = LanguageModel(), nn.CrossEntropyLoss()
    optimizer = None
    if args.update in ("torch", "own"):
        optimizer = (torch.optim.SGD if args.update == "torch" else OwnSGD)(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        states = [model.init_hidden(args.batch_size // args.micro_batches) for _ in range(args.micro_batches)]
        for start in range(0, source.size(0) - 1, args.bptt):
            length = min(args.bptt, source.size(0) - 1 - start)
            model.zero_grad()
            tokens, targets = source[start : start + length], source[start + 1 : start + 1 + length]
            for part, (inputs, wanted) in enumerate(
                zip(tokens.chunk(args.micro_batches, 1), targets.chunk(args.micro_batches, 1), strict=True)
            ):
                hidden = tuple(state.detach() for state in states[part])
                output, states[part] = model(inputs, hidden)
                loss = loss_of(output, wanted.reshape(-1)) / args.micro_batches
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            if optimizer is not None:
                optimizer.step()
            else:
                update_by_hand(model, args.update, args.lr)
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
