"""Compiles the patterns of symptoms: any case where asked, and gcc's messages in any language."""

from __future__ import annotations

import re
from functools import cache

FULL_WIDTH = {"\uff1a": ":", "\uff08": "(", "\uff09": ")"}
"""Colon and brackets of Chinese and Japanese messages, one character for one."""

_NOT_THERE = (
    "没有那个文件或目录|沒有此一檔案或目錄|Datei oder Verzeichnis nicht gefunden|Aucun fichier"
    "|No existe el (?:fichero|archivo)|Arquivo ou diretório inexistente"
    "|Ficheiro ou direct?[óo]ri[oa] inexistente|File o directory non esistente"
    "|Нет такого файла или каталога|そのようなファイルやディレクトリはありません"
    "|그런 파일이나 디렉터리가 없습니다|Nie ma takiego pliku"
)
"""How strerror(ENOENT) begins in the languages that are met most."""
_FATAL = (
    "致命错误|嚴重錯誤|schwerwiegender Fehler|Schwerwiegender Fehler|erreur fatale|error fatal"
    "|erro fatal|errore irreversibile|errore fatale|фатальная ошибка|致命的エラー"
    "|치명적인 오류|치명적 오류|błąd krytyczny"
)
"""What gcc writes for "fatal error" in them."""

_ENGLISH_NOT_THERE = re.compile(r": (No such(?! device)(?: file(?: or directory)?)?)")
_ENGLISH_FATAL = re.compile(r"fatal error: ")
_NAMES_OF_CODE = re.compile(r"\[A-Z|_Z|[A-Z]{3,}_|\(\?i")
"""Patterns with names of functions, mangled symbols and constants, whose case carries meaning."""


@cache
def compile_pattern(pattern: str, in_any_case: bool = False) -> re.Pattern[str]:
    """Return the compiled pattern; there are more than the cache of ``re`` keeps."""
    is_sentence = in_any_case and not _NAMES_OF_CODE.search(pattern)
    is_word = is_sentence and pattern[0].isalpha()
    expression = _allow_other_languages(pattern)
    if is_word:
        expression = rf"(?<![^\W_])(?:{expression})"  # "RuntimeError: " is no "error: "
    return re.compile(expression, re.MULTILINE | (re.IGNORECASE if is_sentence else re.NOFLAG))


def _allow_other_languages(pattern: str) -> str:
    """Return a regular expression that takes what gcc says in other languages as well."""
    pattern = _ENGLISH_NOT_THERE.sub(rf"\\s*:\\s*(?:\1|{_NOT_THERE})", pattern)
    return _ENGLISH_FATAL.sub(f"(?:fatal error|{_FATAL}) ?: ?(?! )", pattern)
