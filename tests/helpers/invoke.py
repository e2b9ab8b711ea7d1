"""The command line as tests call it."""

from ardm.cli.main import main


def fails(capsys, arguments: list[str]) -> tuple[int, str]:
    """Exit status and error of a command that must fail with one line and no output."""
    capsys.readouterr()
    status = main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ardm: ")
    assert captured.err.count("\n") == 1
    return status, captured.err


def output(capsys, arguments: list[str]) -> str:
    """What a command that must succeed prints."""
    capsys.readouterr()
    assert main(arguments) == 0
    return capsys.readouterr().out
