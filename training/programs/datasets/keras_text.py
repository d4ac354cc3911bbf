"""Write invented film reviews with a sentiment, for machines that cannot fetch real ones.

    python -m training.programs.datasets.keras_text FOLDER

creates FOLDER/reviews.tar.gz in the layout of the Large Movie Review Dataset (aclImdb): train/pos/*.txt and so on.
THESE REVIEWS ARE NOT REAL: they are generated from the words and sentence patterns below. The test reviews use sentence
patterns, subjects, and some judging words that no training review has. In every review, some sentences contradict its
sentiment. The archive is the same every time. With --files, the reviews are written to folders instead.
It only needs Python.
"""

import gzip
import io
import random
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.programs.arguments import parser_of

SEED = 41
TRAIN_REVIEWS, TEST_REVIEWS = 2000, 500
JUDGING_SENTENCES = (3, 4, 5)
AGAINST = 0.2
"""Share of judging sentences that contradict the review's sentiment. They are never the majority."""
DENIED = 0.15
"""Share of judgements that negate the opposite word."""

PRAISE = (
    "wonderful brilliant moving clever charming gripping superb delightful witty touching beautiful inspired "
    "memorable thrilling excellent graceful hilarious honest powerful fresh"
)
BLAME = (
    "terrible boring clumsy predictable awful tedious shallow annoying lifeless pointless dreadful confusing "
    "painful bland laughable lazy ugly forgettable hollow stale"
)
HELD_OUT_WORDS = 4
"""Number of words at the end of each list that only test reviews use, in addition to all others."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """The patterns of one part of the corpus, with the placeholders {subject} and {word}. `neutral` has no
    judgement."""

    subjects: tuple[str, ...]
    judging: tuple[str, ...]
    neutral: tuple[str, ...]
    held_out_words: bool


TRAIN = Phrases(
    subjects=("the plot", "the acting", "the music", "the ending", "the dialogue", "the camera work"),
    judging=(
        "I found {subject} {word}.",
        "{subject} was {word} from start to finish.",
        "What stays with me is how {word} {subject} was.",
        "My friends agreed that {subject} was {word}.",
        "Honestly, {subject} felt {word} to me.",
    ),
    neutral=(
        "We saw it on a Tuesday evening.",
        "It lasts about two hours.",
        "The story takes place in a small town.",
        "A sequel has been announced.",
        "I had not read the book before.",
    ),
    held_out_words=False,
)
TEST = Phrases(
    subjects=("the script", "the lead actress", "the pacing", "the second half", "the soundtrack"),
    judging=(
        "{subject} struck everyone in the room as {word}.",
        "Never have I seen anything as {word} as {subject}.",
        "If you ask me, {subject} is simply {word}.",
        "For once {subject} turned out {word}.",
    ),
    neutral=(
        "The cinema was half full.",
        "It was filmed in three countries.",
        "Someone behind us ate crisps all the time.",
    ),
    held_out_words=True,
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--files", action="store_true", help="write a file for each review instead of one archive"
    )
    arguments = parser.parse_args()
    write = write_files if arguments.files else write_archive
    print(f"{write(arguments.folder)} reviews under {arguments.folder}")


def write_archive(folder: Path) -> int:
    """Write reviews.tar.gz. Return the number of reviews."""
    packed = io.BytesIO()
    written = corpus()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in written.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reviews.tar.gz").write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return len(written)


def write_files(folder: Path) -> int:
    """Write train/pos/*.txt and so on. Return the number of reviews."""
    written = corpus()
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return len(written)


def corpus() -> dict[str, str]:
    """Return all reviews by name."""
    chance = random.Random(SEED)
    written = {}
    for part, phrases, count in (("train", TRAIN, TRAIN_REVIEWS), ("test", TEST, TEST_REVIEWS)):
        for number in range(count):
            praising = number % 2 == 0
            name = f"{part}/{'pos' if praising else 'neg'}/{number // 2:05d}.txt"
            written[name] = review(phrases, praising, chance)
    return written


def review(phrases: Phrases, praising: bool, chance: random.Random) -> str:
    """Return a few judging sentences, which mostly agree, and a neutral one, in random order."""
    count = chance.choice(JUDGING_SENTENCES)
    against = min(sum(chance.random() < AGAINST for _ in range(count)), (count - 1) // 2)
    minds = [not praising] * against + [praising] * (count - against)
    sentences = [*(judgement(phrases, mind, chance) for mind in minds), chance.choice(phrases.neutral)]
    chance.shuffle(sentences)
    return " ".join(sentences)


def judgement(phrases: Phrases, praising: bool, chance: random.Random) -> str:
    denied = chance.random() < DENIED
    words = list(_words(praising is not denied, held_out=phrases.held_out_words))
    word = ("not " if denied else "") + chance.choice(words)
    sentence = chance.choice(phrases.judging).format(subject=chance.choice(phrases.subjects), word=word)
    return sentence[0].upper() + sentence[1:]


def _words(praising: bool, *, held_out: bool) -> Iterator[str]:
    words = (PRAISE if praising else BLAME).split()
    yield from words if held_out else words[:-HELD_OUT_WORDS]


if __name__ == "__main__":
    main()
