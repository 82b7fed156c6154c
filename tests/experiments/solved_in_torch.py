"""Right programs that are torch's own layers wherever there is one. Exercises without arrays are not here."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax(s: Tensor):
    return s.softmax(-1)


def cosine(a: Tensor, b):
    return F.cosine_similarity(a, b, dim=0)


def skip_gram(v: Tensor, U: Tensor, target: int):
    v, U = v.clone().requires_grad_(), U.clone().requires_grad_()
    loss = F.cross_entropy(U @ v, torch.tensor(target))
    return loss, *torch.autograd.grad(loss, (v, U))


def negative_sampling(v: Tensor, u: Tensor, negative: Tensor):
    v, u, negative = (one.clone().requires_grad_() for one in (v, u, negative))
    loss = -F.logsigmoid(u @ v) - F.logsigmoid(-negative @ v).sum()
    return loss, *torch.autograd.grad(loss, (v, u, negative))


def filled(cell, W: Tensor, U, b, b_hidden):
    """A cell of torch with these weights."""
    cell = cell(W.shape[1], U.shape[1]).double()
    for parameter, value in zip(cell.parameters(), (W, U, b, b_hidden), strict=True):
        parameter.data = value
    return cell


def rnn_cell(x: Tensor, h, W, U, b):
    return filled(torch.nn.RNNCell, W, U, b, torch.zeros_like(b))(x, h)


def lstm_cell(x: Tensor, h, c, W, U, b):
    return filled(torch.nn.LSTMCell, W, U, b, torch.zeros_like(b))(x, (h, c))


def gru_cell(x: Tensor, h, W, U, b, b_hidden):
    return filled(torch.nn.GRUCell, W, U, b, b_hidden)(x, h)


def cross_entropy(logits: Tensor, target: Tensor, padding: int):
    return F.cross_entropy(logits, target, ignore_index=padding)


def perplexity(log_probability: Tensor):
    return torch.exp(-log_probability.mean())


def label_smoothing(logits: Tensor, target: Tensor, smoothing: float):
    return F.cross_entropy(logits, target, label_smoothing=smoothing)


def attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def dot_score(q: Tensor, k):
    return torch.einsum("qd,kd->qk", q, k) / math.sqrt(q.shape[1])


def additive_score(q: Tensor, k, W_q, W_k, w):
    return torch.tanh((q @ W_q)[:, None] + k @ W_k) @ w


def bilinear_score(q: Tensor, M, k):
    layer = torch.nn.Bilinear(q.shape[1], k.shape[1], 1, bias=False).double()
    layer.weight.data = M[None]
    pairs = torch.cartesian_prod(torch.arange(len(q)), torch.arange(len(k)))
    return layer(q[pairs[:, 0]], k[pairs[:, 1]]).reshape(len(q), len(k))


def multi_head(x: Tensor, W_Q, W_K, W_V, W_O, heads: int):
    layer = torch.nn.MultiheadAttention(x.shape[1], heads, bias=False, batch_first=True).double()
    layer.in_proj_weight.data = torch.cat([W_Q.T, W_K.T, W_V.T])
    layer.out_proj.weight.data = W_O.T.contiguous()
    return layer(x[None], x[None], x[None], need_weights=False)[0][0]


def grouped_query(q: Tensor, k, v):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], enable_gqa=True)[0]


def cached_step(q: Tensor, k, v, keys, values):
    keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
    return F.scaled_dot_product_attention(q[None], keys, values)[0], keys, values


def linear_attention(q: Tensor, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    S = (k[:, :, None] * v[:, None]).cumsum(0)
    return torch.einsum("td,tde->te", q, S) / (q * k.cumsum(0)).sum(1, keepdim=True)


def sinusoid(tokens: int, width: int):
    angle = torch.arange(tokens, dtype=torch.float64)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000) / width))
    p = torch.zeros(tokens, width, dtype=torch.float64)
    p[:, 0::2], p[:, 1::2] = angle.sin(), angle.cos()
    return p


def rotary(x: Tensor, start: int):
    half = x.shape[1] // 2
    theta = torch.arange(start, start + len(x))[:, None] * 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = theta.cos().repeat(1, 2), theta.sin().repeat(1, 2)
    return x * cos + torch.cat([-x[:, half:], x[:, :half]], 1) * sin


def alibi(heads: int, queries: int, keys: int):
    slopes = torch.tensor([2 ** (-8 * h / heads) for h in range(1, heads + 1)], dtype=torch.float64)
    distance = torch.arange(keys)[None] - torch.arange(keys - queries, keys)[:, None]
    return -slopes[:, None, None] * distance.abs()


def layer_norm(x: Tensor, gain, bias, epsilon: float):
    return F.layer_norm(x, x.shape[1:], gain, bias, epsilon)


def rms_norm(x: Tensor, gain, epsilon: float):
    return F.rms_norm(x, x.shape[1:], gain, epsilon)


def feed_forward(x: Tensor, W_1, b_1, W_2, b_2):
    return F.linear(F.relu(F.linear(x, W_1.T, b_1)), W_2.T, b_2)


def block(
    x: Tensor, gain, bias, W_Q, W_K, W_V, W_O, W_1, b_1, W_2, b_2, heads: int, norm_first: bool = True, causal: bool = True
):
    d, h = W_1.shape
    layer = torch.nn.TransformerEncoderLayer(d, heads, h, dropout=0.0, batch_first=True, norm_first=norm_first).double()
    weights = {
        "self_attn.in_proj_weight": torch.cat([W_Q.T, W_K.T, W_V.T]),
        "self_attn.in_proj_bias": torch.zeros(3 * d),
        "self_attn.out_proj.weight": W_O.T,
        "self_attn.out_proj.bias": torch.zeros(d),
        "linear1.weight": W_1.T,
        "linear1.bias": b_1,
        "linear2.weight": W_2.T,
        "linear2.bias": b_2,
        "norm1.weight": gain[0],
        "norm1.bias": bias[0],
        "norm2.weight": gain[1],
        "norm2.bias": bias[1],
    }
    layer.load_state_dict(weights)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(len(x), dtype=x.dtype) if causal else None
    return layer(x[None], src_mask=mask)[0]


def lora(x: Tensor, W, A, B, alpha: float):
    return x @ W + alpha / A.shape[1] * (x @ A) @ B


def beam_search(log_p: Tensor, start: int, end: int, beam: int, longest: int, alpha: float):
    tokens, score, finished = torch.tensor([[start]]), torch.zeros(1, dtype=torch.float64), []
    for _ in range(longest):
        extended = (score[:, None] + log_p[tokens[:, -1]]).flatten()
        score, kept = extended.topk(min(beam, len(extended)))
        tokens = torch.cat([tokens[kept // len(log_p)], (kept % len(log_p))[:, None]], 1)
        over = tokens[:, -1] == end
        finished += zip(score[over].tolist(), tokens[over].tolist(), strict=True)
        tokens, score = tokens[~over], score[~over]
        if not len(tokens):
            break
    finished += zip(score.tolist(), tokens.tolist(), strict=True)
    return max(finished, key=lambda one: one[0] / (len(one[1]) - 1) ** alpha)[1][1:]
