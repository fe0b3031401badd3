"""Scaled dot-product attention on fake cuda tensors, by the kernel that a GPU would take.

Without one, torch falls back to plain matrix products, which keep the whole square of scores.
"""

import torch

_HALVES = (torch.float16, torch.bfloat16)
_LARGEST_FLASH_HEAD = 256
"""Features of a head beyond which flash attention is not taken: torch's sdp_utils.cpp."""
_aten = torch.ops.aten


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if enable_gqa and key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    if query.dim() != 4:
        plain = _aten._scaled_dot_product_attention_math
        return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
    if query.dtype in _HALVES and attn_mask is None and query.shape[-1] <= _LARGEST_FLASH_HEAD:
        flash = _aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            hidden = attn_mask.logical_not()
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(hidden, float("-inf"))
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    efficient = _aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


def attention_as_on_a_gpu(library: torch.library.Library) -> None:
    """Have torch take these kernels for cuda tensors, as long as the library is kept."""
    library.impl("scaled_dot_product_attention", _attention, "AutogradCUDA")
