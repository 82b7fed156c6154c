"""Right programs in loops, as a beginner would write them, for NumPy arrays."""

import math

import numpy as np


def softmax(s):
    p = np.zeros_like(s)
    for r in range(len(s)):
        top = max(s[r])
        total = 0.0
        for k in range(s.shape[1]):
            p[r, k] = math.exp(s[r, k] - top)
            total += p[r, k]
        for k in range(s.shape[1]):
            p[r, k] /= total
    return p


def cosine(a, b):
    dot = aa = bb = 0.0
    for x, y in zip(a, b, strict=True):
        dot, aa, bb = dot + x * y, aa + x * x, bb + y * y
    return dot / math.sqrt(aa * bb)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def skip_gram(v, U, target):
    scores = [sum(U[c, j] * v[j] for j in range(len(v))) for c in range(len(U))]
    top = max(scores)
    total = sum(math.exp(s - top) for s in scores)
    of_v, of_U = np.zeros_like(v), np.zeros_like(U)
    for c in range(len(U)):
        g = math.exp(scores[c] - top) / total - (c == target)
        of_v += g * U[c]
        of_U[c] = g * v
    return top + math.log(total) - scores[target], of_v, of_U


def negative_sampling(v, u, negative):
    s = sigmoid(sum(a * b for a, b in zip(u, v, strict=True)))
    loss, of_v, of_u, of_negative = -math.log(s), (s - 1) * u, (s - 1) * v, np.zeros_like(negative)
    for n in range(len(negative)):
        s = sigmoid(sum(a * b for a, b in zip(negative[n], v, strict=True)))
        loss -= math.log(1 - s)
        of_v = of_v + s * negative[n]
        of_negative[n] = s * v
    return loss, of_v, of_u, of_negative


def affine(W, x, b):
    return [b[j] + sum(W[j, i] * x[i] for i in range(len(x))) for j in range(len(b))]


def rnn_cell(x, h, W, U, b):
    from_x, from_h = affine(W, x, b), affine(U, h, np.zeros(len(b)))
    return np.array([math.tanh(one + other) for one, other in zip(from_x, from_h, strict=True)])


def lstm_cell(x, h, c, W, U, b):
    from_x, from_h, d = affine(W, x, b), affine(U, h, np.zeros(len(b))), len(c)
    gates = [one + other for one, other in zip(from_x, from_h, strict=True)]
    new_h, new_c = np.zeros(d), np.zeros(d)
    for j in range(d):
        i, f, g, o = gates[j], gates[d + j], gates[2 * d + j], gates[3 * d + j]
        new_c[j] = sigmoid(f) * c[j] + sigmoid(i) * math.tanh(g)
        new_h[j] = sigmoid(o) * math.tanh(new_c[j])
    return new_h, new_c


def gru_cell(x, h, W, U, b, b_hidden):
    from_x, from_h, d = affine(W, x, b), affine(U, h, b_hidden), len(h)
    new = np.zeros(d)
    for j in range(d):
        r, z = sigmoid(from_x[j] + from_h[j]), sigmoid(from_x[d + j] + from_h[d + j])
        n = math.tanh(from_x[2 * d + j] + r * from_h[2 * d + j])
        new[j] = (1 - z) * n + z * h[j]
    return new


def cross_entropy(logits, target, padding):
    total, count = 0.0, 0
    for t in range(len(target)):
        if target[t] != padding:
            total -= math.log(softmax(logits[t : t + 1])[0, target[t]])
            count += 1
    return total / count


def perplexity(log_probability):
    total = 0.0
    for one in log_probability:
        total -= one
    return math.exp(total / len(log_probability))


def label_smoothing(logits, target, smoothing):
    total, (T, V) = 0.0, logits.shape
    p = softmax(logits)
    for t in range(T):
        for v in range(V):
            total -= (smoothing / V + (1 - smoothing) * (v == target[t])) * math.log(p[t, v])
    return total / T


def attention(q, k, v, allowed):
    output = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        keys = [j for j in range(len(k)) if allowed[i, j]]
        powers = [math.exp(sum(a * b for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(len(q[i]))) for j in keys]
        for j, power in zip(keys, powers, strict=True):
            output[i] += power / sum(powers) * v[j]
    return output


def dot_score(q, k):
    s = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        for j in range(len(k)):
            s[i, j] = sum(a * b for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(len(q[i]))
    return s


def additive_score(q, k, W_q, W_k, w):
    s = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        for j in range(len(k)):
            for a in range(len(w)):
                s[i, j] += w[a] * math.tanh(sum(W_q[:, a] * q[i]) + sum(W_k[:, a] * k[j]))
    return s


def bilinear_score(q, M, k):
    D = len(M)
    return np.array([[sum(a[i] * M[i, j] * b[j] for i in range(D) for j in range(D)) for b in k] for a in q])


def multi_head(x, W_Q, W_K, W_V, W_O, heads):
    D, parts = x.shape[1] // heads, []
    everything = np.ones((len(x), len(x)), dtype=bool)
    for h in range(heads):
        own = slice(h * D, (h + 1) * D)
        parts.append(attention(x @ W_Q[:, own], x @ W_K[:, own], x @ W_V[:, own], everything))
    return np.concatenate(parts, axis=1) @ W_O


def grouped_query(q, k, v):
    shared, everything = len(q) // len(k), np.ones((q.shape[1], k.shape[1]), dtype=bool)
    return np.array([attention(q[h], k[h // shared], v[h // shared], everything) for h in range(len(q))])


def cached_step(q, k, v, keys, values):
    keys, values = np.vstack([keys, k]), np.vstack([values, v])
    return attention(q[None], keys, values, np.ones((1, len(keys)), dtype=bool))[0], keys, values


def linear_attention(q, k, v):
    def phi(x):
        return np.array([one + 1 if one > 0 else math.exp(one) for one in x])

    S, z, outputs = np.zeros((q.shape[1], v.shape[1])), np.zeros(q.shape[1]), []
    for t in range(len(q)):
        f = phi(k[t])
        for i in range(len(f)):
            z[i] += f[i]
            for j in range(v.shape[1]):
                S[i, j] += f[i] * v[t, j]
        outputs.append(phi(q[t]) @ S / (phi(q[t]) @ z))
    return np.array(outputs)


def sinusoid(tokens, width):
    p = np.zeros((tokens, width))
    for t in range(tokens):
        for i in range(width // 2):
            p[t, 2 * i] = math.sin(t / 10000 ** (2 * i / width))
            p[t, 2 * i + 1] = math.cos(t / 10000 ** (2 * i / width))
    return p


def rotary(x, start):
    y, half = np.zeros_like(x), x.shape[1] // 2
    for t in range(len(x)):
        for i in range(half):
            theta = (start + t) / 10000 ** (i / half)
            y[t, i] = x[t, i] * math.cos(theta) - x[t, i + half] * math.sin(theta)
            y[t, i + half] = x[t, i + half] * math.cos(theta) + x[t, i] * math.sin(theta)
    return y


def alibi(heads, queries, keys):
    b = np.zeros((heads, queries, keys))
    for h in range(heads):
        for q in range(queries):
            for k in range(keys):
                b[h, q, k] = -(2 ** (-8 * (h + 1) / heads)) * abs(k - (keys - queries + q))
    return b


def layer_norm(x, gain, bias, epsilon):
    y = np.zeros_like(x)
    for t in range(len(x)):
        mean = sum(x[t]) / len(x[t])
        variance = sum((one - mean) ** 2 for one in x[t]) / len(x[t])
        for j in range(len(x[t])):
            y[t, j] = gain[j] * (x[t, j] - mean) / math.sqrt(variance + epsilon) + bias[j]
    return y


def rms_norm(x, gain, epsilon):
    y = np.zeros_like(x)
    for t in range(len(x)):
        square = sum(one**2 for one in x[t]) / len(x[t])
        for j in range(len(x[t])):
            y[t, j] = gain[j] * x[t, j] / math.sqrt(square + epsilon)
    return y


def feed_forward(x, W_1, b_1, W_2, b_2):
    rows = []
    for one in x:
        hidden = [max(0.0, value) for value in affine(W_1.T, one, b_1)]
        rows.append(affine(W_2.T, hidden, b_2))
    return np.array(rows)


def block(x, gain, bias, W_Q, W_K, W_V, W_O, W_1, b_1, W_2, b_2, heads):
    normed, D, added = layer_norm(x, gain[0], bias[0], 1e-5), x.shape[1] // heads, np.zeros_like(x)
    for t in range(len(x)):
        for h in range(heads):
            own, seen = slice(h * D, (h + 1) * D), normed[: t + 1]  # this head, and the tokens up to t
            query, everything = normed[t : t + 1] @ W_Q[:, own], np.ones((1, t + 1), dtype=bool)
            added[t] += attention(query, seen @ W_K[:, own], seen @ W_V[:, own], everything)[0] @ W_O[own]
    a = x + added
    return a + feed_forward(layer_norm(a, gain[1], bias[1], 1e-5), W_1, b_1, W_2, b_2)


def lora(x, W, A, B, alpha):
    r = A.shape[1]
    y = np.zeros((len(x), W.shape[1]))
    for t in range(len(x)):
        for j in range(W.shape[1]):
            adapted = sum(sum(x[t, i] * A[i, n] for i in range(len(W))) * B[n, j] for n in range(r))
            y[t, j] = sum(x[t, i] * W[i, j] for i in range(len(W))) + alpha / r * adapted
    return y


def bpe_merge(tokens, left, right):
    merged, i = [], 0
    while i < len(tokens):
        if i + 1 < len(tokens) and tokens[i] == left and tokens[i + 1] == right:
            merged.append(left + right)
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


def beam_search(log_p, start, end, beam, longest, alpha):
    live, finished = [([start], 0.0)], []
    for _ in range(longest):
        extended = []
        for tokens, score in live:
            for v in range(len(log_p)):
                extended.append(([*tokens, v], score + log_p[tokens[-1], v]))
        extended.sort(key=lambda one: one[1], reverse=True)
        live = []
        for one in extended[:beam]:
            (finished if one[0][-1] == end else live).append(one)
    best, highest = None, -math.inf
    for tokens, score in finished + live:
        if score / (len(tokens) - 1) ** alpha > highest:
            best, highest = tokens[1:], score / (len(tokens) - 1) ** alpha
    return best


def bleu(candidate, reference):
    total = 0.0
    for n in range(1, 5):
        left = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)]
        count = len(candidate) - n + 1
        hits = 0
        for i in range(count):
            gram = tuple(candidate[i : i + n])
            if gram in left:
                left.remove(gram)
                hits += 1
        if hits == 0:
            return 0.0
        total += math.log(hits / count) / 4
    return math.exp(total + min(0.0, 1 - len(reference) / len(candidate)))
