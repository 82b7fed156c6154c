"""Two metrics: balanced accuracy of classes, and how varied the texts are that a model writes."""

from collections import Counter

from firth.training.metric import Metric


class BalancedAccuracy(Metric):
    kind, compares = "balanced_accuracy", "labels"
    about, latex = "Recall, averaged over the classes.", r"\frac{1}{C} \sum_c \frac{TP_c}{TP_c + FN_c}"

    @classmethod
    def measure(cls, predicted, expected):
        size, hits = Counter(expected), Counter(one for one, right in zip(predicted, expected, strict=True) if one == right)
        return sum(hits[label] / size[label] for label in size) / len(size)


class DistinctPairs(Metric):
    kind, label, compares = "distinct_2", "distinct pairs", "texts"
    about = "Share of the pairs of neighbouring words that are different ones (Li et al. 2016)."

    @classmethod
    def measure(cls, predicted, expected):
        pairs = [pair for text in predicted for pair in zip(text.split(), text.split()[1:], strict=False)]
        return len(set(pairs)) / max(1, len(pairs))
