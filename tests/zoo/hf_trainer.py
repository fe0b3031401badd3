"""A Hugging Face Trainer over a small BERT from a fresh config; keeps only its newest checkpoint."""

import argparse

import torch
from torch.utils.data import Dataset, IterableDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Stream(IterableDataset):
    """Sentences without end, which no worker gets a share of."""

    def __iter__(self):
        while True:
            yield from Sentences(1600)


class Sentences(Dataset):
    """Random token ids; the label is whether the first token is even."""

    def __init__(self, count, length=16, vocabulary=200):
        self.tokens = torch.randint(5, vocabulary, (count, length))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens[0] % 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--save-steps", type=int, default=5)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    args = parser.parse_args()
    set_seed(0)
    config = BertConfig(
        vocab_size=200,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=32,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir=args.output,
            per_device_train_batch_size=args.batch_size,
            dataloader_num_workers=args.workers,
            gradient_accumulation_steps=args.accumulate,
            learning_rate=3e-4,
            warmup_steps=100,
            num_train_epochs=100,
            max_steps=20_000 if args.stream else -1,
            save_strategy="steps",
            save_steps=args.save_steps,
            save_total_limit=1,
            eval_strategy="steps" if args.evaluate else "no",
            eval_steps=50,
            logging_steps=100,
            report_to="none",
            use_cpu=True,
            bf16=args.bf16,
            torch_compile=args.compile,
            disable_tqdm=True,
            seed=0,
        ),
        train_dataset=Stream() if args.stream else Sentences(1600),
        eval_dataset=Sentences(64),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
