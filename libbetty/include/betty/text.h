/* betty/text.h: tokenisers, which turn text into numbers and back; data sets of text */
#ifndef BETTY_TEXT_H
#define BETTY_TEXT_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_tokenizer bt_tokenizer;

/* Opens a tokeniser. path is a tokenizer.json as Hugging Face's `tokenizers` writes it, plain or .gz; or GPT-2's
 * vocab.json, with merges.txt beside it; or a folder that holds either. It is looked up in the same places as a data
 * set. The ids equal those of `tokenizers`. The models BPE, WordPiece and WordLevel are supported; docs/text-data.md
 * lists the other parts. If a part is not supported, BT_ERROR_DATA names it. `padding` and `truncation` in the file are
 * ignored; the data set handles both. Returns NULL on failure. */
bt_tokenizer *bt_tokenizer_open(const char *path);
void bt_tokenizer_free(bt_tokenizer *tokenizer);

/* Makes a vocabulary from a text, UTF-8 of `length` bytes (-1: up to the closing 0). Id 0 is the token <unk>, which
 * stands for everything outside the vocabulary. bt_tokenizer_characters has one token for each character of the text,
 * in order of code points. bt_tokenizer_words has the most frequent words, `size` tokens in all, including <unk>. Words
 * that are equally frequent are ordered by their bytes. A word is a run of letters, digits, marks and _, or of other
 * signs. */
bt_tokenizer *bt_tokenizer_characters(const char *text, int64_t length);
bt_tokenizer *bt_tokenizer_words(const char *text, int64_t length, int64_t size);

int64_t bt_tokenizer_size(const bt_tokenizer *tokenizer); /* ids are 0 to size-1, the rows of an embedding */

/* Converts a text, UTF-8 of `length` bytes (-1: up to the closing 0), to ids. special: adds the tokens that a model
 * expects around it, such as [CLS] and [SEP]. Returns the number of ids, and writes the first `room` of them. Returns
 * -1 on failure. */
int64_t bt_tokenizer_encode(const bt_tokenizer *tokenizer, const char *text, int64_t length, bool special, int32_t *ids,
                            int64_t room);

/* Converts ids to text. Special tokens are left out unless `special` is true. Returns the length in bytes, without the
 * closing 0, and writes at most room - 1 bytes and a 0. Bytes that are not valid UTF-8 become U+FFFD. Returns -1 on
 * failure. */
int64_t bt_tokenizer_decode(const bt_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool special, char *text,
                            int64_t room);

int64_t bt_tokenizer_id(const bt_tokenizer *tokenizer, const char *token); /* -1 if there is no such token */
const char *bt_tokenizer_token(const bt_tokenizer *tokenizer, int64_t id); /* owned by the tokeniser; or NULL */

/* The ids of tokens with a special meaning, as the file defines them, or by their usual names; -1 if there is none. */
typedef enum bt_special {
    BT_PADDING,     /* [PAD], <pad> */
    BT_UNKNOWN,     /* [UNK], <unk> */
    BT_MASK,        /* [MASK], <mask> */
    BT_CLS,         /* [CLS], <s> */
    BT_SEP,         /* [SEP], </s> */
    BT_END_OF_TEXT, /* <|endoftext|>, <|end_of_text|>, </s>, [EOS], <eos> */
    BT_SPECIALS
} bt_special;
int64_t bt_tokenizer_special(const bt_tokenizer *tokenizer, bt_special which);

/* ---- data sets of text ---- */

/* A text is a file (.txt, .gz and .txt.gz may be left out of its name), or a folder of .txt or .txt.gz files. Each file
 * in a folder is a source, numbered 0, 1, ... in order of file names. SOURCE.txt, README.txt and LICENSE.txt are not
 * sources. "austen" comes with the library: six novels, each a source; "austen/emma" is one of them. Texts are looked
 * up in the same places as data sets. */
int64_t bt_text_sources(const char *text); /* number of sources; -1 on failure */

/* The tokeniser that an INI key names: "characters" or "words:SIZE", made from the whole text, or, for a set of texts
 * with votes, from its training texts. Anything else is opened by bt_tokenizer_open(how). Returns NULL on failure. */
bt_tokenizer *bt_tokenizer_for(const char *how, const char *text);

/* Windows of `length` tokens. Each begins `stride` tokens after the one before it and lies within one source. The
 * fields are token [n, length]; next [n, length], the token that follows each position; and source [n]. In each source,
 * only tokens between the fractions from and to are used, so 0 to 0.9 and 0.9 to 1 share none. The tokens are stored
 * once, 4 bytes each, with 12 bytes per window. Returns NULL on failure. */
bt_dataset *bt_dataset_windows(const char *text, const bt_tokenizer *tokenizer, int64_t length, int64_t stride,
                               double from, double to);

/* Texts with votes (see bt_dataset_open), with token [n, length] and length [n] in place of x. token holds the ids,
 * including those that the tokeniser adds to a text, and then padding (0 if the tokeniser has no padding token). length
 * is the number of tokens that are not padding. Longer texts are cut, and a message says so. NULL: failed. */
bt_dataset *bt_dataset_texts(const char *name, const char *split, const bt_tokenizer *tokenizer, int64_t length);

#ifdef __cplusplus
}
#endif
#endif
