"""A Hugging Face Trainer over a small BERT from a fresh config, on the GPU that it finds."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Sentences(Dataset):
    """Random token ids; the label is whether the first token is even."""

    def __init__(self, count, length=64, vocabulary=200):
        self.tokens = torch.randint(5, vocabulary, (count, length))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens[0] % 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    set_seed(0)
    config = BertConfig(
        vocab_size=200,
        hidden_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        intermediate_size=2048,
        max_position_embeddings=64,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir=args.output,
            per_device_train_batch_size=8,
            num_train_epochs=1000,
            learning_rate=3e-4,
            save_strategy="no",
            logging_steps=100,
            report_to="none",
            disable_tqdm=True,
            seed=0,
        ),
        train_dataset=Sentences(3200),
    )
    trainer.train()


if __name__ == "__main__":
    main()
