"""Right programs in whole-array operations of NumPy."""

import re
from collections import Counter

import numpy as np


def softmax(s, axis=-1):
    power = np.exp(s - s.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def cosine(a, b):
    return np.dot(a / np.linalg.norm(a), b / np.linalg.norm(b))


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def skip_gram(v, U, target):
    p = softmax(U @ v)
    g = p - np.eye(len(U))[target]
    return -np.log(p[target]), U.T @ g, g[:, None] * v


def negative_sampling(v, u, negative):
    vectors, y = np.vstack([u, negative]), np.r_[1.0, np.zeros(len(negative))]
    g = sigmoid(vectors @ v) - y
    gradient = np.outer(g, v)
    return np.logaddexp(0, (1 - 2 * y) * (vectors @ v)).sum(), g @ vectors, gradient[0], gradient[1:]


def rnn_cell(x, h, W, U, b):
    return np.tanh(np.concatenate([W, U], axis=1) @ np.concatenate([x, h]) + b)


def lstm_cell(x, h, c, W, U, b):
    i, f, g, o = (W @ x + U @ h + b).reshape(4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_cell(x, h, W, U, b, b_hidden):
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (W @ x + b).reshape(3, -1), (U @ h + b_hidden).reshape(3, -1)
    n = np.tanh(n_x + sigmoid(r_x + r_h) * n_h)
    return n + sigmoid(z_x + z_h) * (h - n)


def log_softmax(s):
    top = s.max(-1, keepdims=True)
    return s - top - np.log(np.exp(s - top).sum(-1, keepdims=True))


def cross_entropy(logits, target, padding):
    kept = target != padding
    return -log_softmax(logits)[kept, target[kept]].mean()


def perplexity(log_probability):
    return np.exp(-log_probability.mean())


def label_smoothing(logits, target, smoothing):
    V = logits.shape[1]
    return -((smoothing / V + (1 - smoothing) * np.eye(V)[target]) * log_softmax(logits)).sum(1).mean()


def attention(q, k, v, allowed):
    return softmax(np.where(allowed, np.einsum("qd,kd->qk", q, k) * q.shape[-1] ** -0.5, -1e30)) @ v


def dot_score(q, k):
    return q @ k.T / np.sqrt(k.shape[1])


def additive_score(q, k, W_q, W_k, w):
    return np.einsum("a,qka->qk", w, np.tanh((q @ W_q)[:, None] + (k @ W_k)[None]))


def bilinear_score(q, M, k):
    return np.einsum("qi,ij,kj->qk", q, M, k)


def multi_head(x, W_Q, W_K, W_V, W_O, heads):
    q, k, v = (np.stack(np.split(x @ W, heads, axis=1)) for W in (W_Q, W_K, W_V))
    o = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])) @ v
    return np.concatenate(list(o), axis=1) @ W_O


def grouped_query(q, k, v):
    H, T, D = q.shape
    p = softmax(np.einsum("gjqd,gkd->gjqk", q.reshape(len(k), -1, T, D), k) / np.sqrt(D))
    return np.einsum("gjqk,gkd->gjqd", p, v).reshape(H, T, D)


def cached_step(q, k, v, keys, values):
    keys, values = np.append(keys, [k], axis=0), np.append(values, [v], axis=0)
    return softmax(keys @ q / np.sqrt(len(q))) @ values, keys, values


def linear_attention(q, k, v):
    q, k = (np.where(x > 0, x + 1, np.exp(x)) for x in (q, k))
    s = np.tril(q @ k.T)
    return s / s.sum(1, keepdims=True) @ v


def sinusoid(tokens, width):
    angle = np.arange(tokens)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.dstack([np.sin(angle), np.cos(angle)]).reshape(tokens, width)


def rotary(x, start):
    half = x.shape[1] // 2
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * np.outer(start + np.arange(len(x)), 10000 ** (-np.arange(half) / half)))
    return np.hstack([z.real, z.imag])


def alibi(heads, queries, keys):
    t = np.arange(keys)
    return -(0.5 ** (8 * np.arange(1, heads + 1) / heads))[:, None, None] * abs(t[None] - t[-queries:, None])


def layer_norm(x, gain, bias, epsilon):
    return gain * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + epsilon) + bias


def rms_norm(x, gain, epsilon):
    return gain * x / np.sqrt(np.square(x).mean(1, keepdims=True) + epsilon)


def feed_forward(x, W_1, b_1, W_2, b_2):
    return (x @ W_1 + b_1).clip(0) @ W_2 + b_2


def block(x, gain, bias, W_Q, W_K, W_V, W_O, W_1, b_1, W_2, b_2, heads):
    normed = layer_norm(x, gain[0], bias[0], 1e-5)
    q, k, v = (np.stack(np.split(normed @ W, heads, axis=1)) for W in (W_Q, W_K, W_V))
    later = np.triu(np.full((len(x), len(x)), -np.inf), 1)
    o = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + later) @ v
    x = x + np.concatenate(list(o), axis=1) @ W_O
    return x + feed_forward(layer_norm(x, gain[1], bias[1], 1e-5), W_1, b_1, W_2, b_2)


def lora(x, W, A, B, alpha):
    return x @ (W + alpha / len(B) * A @ B)


def bpe_merge(tokens, left, right):
    """As a regular expression over tokens between bars."""
    text = "".join(f"|{token}|" for token in tokens)
    return re.findall(r"\|(\w+)\|", re.sub(rf"\|{left}\|\|{right}\|", f"|{left}{right}|", text))


def beam_search(log_p, start, end, beam, longest, alpha):
    tokens, score, finished = np.array([[start]]), np.zeros(1), []
    for _ in range(longest):
        extended = (score[:, None] + log_p[tokens[:, -1]]).reshape(-1)
        kept = np.argsort(-extended)[:beam]
        tokens = np.column_stack([tokens[kept // len(log_p)], kept % len(log_p)])
        score, over = extended[kept], tokens[:, -1] == end
        finished += zip(score[over], tokens[over], strict=True)
        tokens, score = tokens[~over], score[~over]
    finished += zip(score, tokens, strict=True)
    return max(finished, key=lambda one: one[0] / (len(one[1]) - 1) ** alpha)[1][1:].tolist()


def bleu(candidate, reference):
    def grams(text, n):
        return Counter(zip(*(text[i:] for i in range(n)), strict=False))

    hits = [(grams(candidate, n) & grams(reference, n)).total() for n in range(1, 5)]
    counts = [max(len(candidate) - n, 1) for n in range(4)]
    return float(np.prod(np.divide(hits, counts)) ** 0.25 * np.exp(min(0, 1 - len(reference) / len(candidate))))
