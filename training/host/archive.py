"""The program's archive, unpacked without letting it write anywhere else."""

import gzip
import lzma
import tarfile
import zlib
from pathlib import Path

from training.host.errors import HostTrouble, ProgramFault


def unpack(archive: Path, folder: Path, *, source: str) -> int:
    """Unpack a tar (plain, gz, bz2, xz) into `folder`; how many files there were.

    Members that would leave the folder, devices and links to the outside end it with ProgramFault, and so
    does what is not a tar, or an empty one.
    """
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise ProgramFault(f"{source} holds a member that may not be unpacked: {error}") from error
    except (tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ProgramFault(
            f"{source} is not a whole tar archive ({error}); make it with `tar -czf program.tar.gz -C FOLDER .`"
        ) from error
    except OSError as error:
        raise HostTrouble(f"unpacking {source} failed: {error}") from error
    files = sum(1 for path in folder.rglob("*") if path.is_file())
    if files == 0:
        raise ProgramFault(f"{source} is an empty archive; put the program into it")
    return files
