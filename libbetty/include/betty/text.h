/* betty/text.h: tokenisers: text as numbers, and back; data sets of text */
#ifndef BETTY_TEXT_H
#define BETTY_TEXT_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_tokenizer bt_tokenizer;

/* Reads a tokeniser; path: a tokenizer.json as Hugging Face's `tokenizers` writes it, plain or .gz; GPT-2's vocab.json,
 * beside which merges.txt must be; or a folder with either. Looked for in the same places as data sets are. Ids are
 * those of `tokenizers`: models BPE, WordPiece and WordLevel, and of the other parts those that docs/text-data.md
 * lists; BT_ERROR_DATA names the part that is not supported. `padding` and `truncation` of a file are left to the data
 * set. NULL: failed. */
bt_tokenizer *bt_tokenizer_open(const char *path);
void bt_tokenizer_free(bt_tokenizer *tokenizer);

/* A vocabulary of a text, UTF-8 of `length` bytes (-1: up to its 0). Its first token, id 0, is <unk>, for all that is
 * not in it. Of characters: each character of the text, in order of their code points. Of words: the most frequent
 * ones, `size` tokens in all with <unk>, of words as frequent the first in order of their bytes; a word is a run of
 * letters, digits, marks and _, or one of other signs. */
bt_tokenizer *bt_tokenizer_characters(const char *text, int64_t length);
bt_tokenizer *bt_tokenizer_words(const char *text, int64_t length, int64_t size);

int64_t bt_tokenizer_size(const bt_tokenizer *tokenizer); /* ids are 0 to size-1: rows of an embedding */

/* The ids of a text, UTF-8 of `length` bytes (-1: up to its 0); special: with what a model wants around it, such as
 * [CLS] and [SEP]. Returns how many there are, and writes the first `room` of them; -1: failed. */
int64_t bt_tokenizer_encode(const bt_tokenizer *tokenizer, const char *text, int64_t length, bool special, int32_t *ids,
                            int64_t room);

/* The text of some ids, without special tokens unless `special`. Returns its bytes, without the closing 0, and writes
 * at most room - 1 of them and a 0; -1: failed. Bytes that are no UTF-8 become U+FFFD. */
int64_t bt_tokenizer_decode(const bt_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool special, char *text,
                            int64_t room);

int64_t bt_tokenizer_id(const bt_tokenizer *tokenizer, const char *token); /* -1: there is no such token */
const char *bt_tokenizer_token(const bt_tokenizer *tokenizer, int64_t id); /* until it is freed; NULL: none */

/* The ids of tokens with a meaning, by what the file says of them, or by the names that they usually have; -1: none. */
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

/* A text is a file, with or without .txt, .gz or .txt.gz in its name, or a folder of such files, .txt or .txt.gz, each
 * of which is a source: 0, 1, ... in order of their names (SOURCE.txt, README.txt and LICENSE.txt are none). "austen"
 * comes with the library: six novels, each a source, and "austen/emma" is one of them. Looked for as data sets are. */
int64_t bt_text_sources(const char *text); /* how many; -1: failed */

/* The tokeniser that a key of an INI file may ask for: "characters" or "words:SIZE", made of all of that text, or of
 * the texts to train with of a set of texts with votes; else bt_tokenizer_open(how). NULL: failed. */
bt_tokenizer *bt_tokenizer_for(const char *how, const char *text);

/* Windows of `length` tokens, each `stride` tokens after the one before it, within one source: token [n, length]; next
 * [n, length], at each place the token behind it; source [n]. Of the tokens of each source those are taken that lie
 * between the fractions from and to, so that 0 to 0.9 and 0.9 to 1 have nothing in common. The tokens are held once, 4
 * bytes each, and 12 bytes for each window. NULL: failed. */
bt_dataset *bt_dataset_windows(const char *text, const bt_tokenizer *tokenizer, int64_t length, int64_t stride,
                               double from, double to);

/* Texts with votes (bt_dataset_open), as token [n, length] and length [n] in the place of x: the ids, with what the
 * tokeniser adds to a text, padding behind them (0 where the tokeniser has no token for it), and how many are no
 * padding. What is longer is cut, which is told. NULL: failed. */
bt_dataset *bt_dataset_texts(const char *name, const char *split, const bt_tokenizer *tokenizer, int64_t length);

#ifdef __cplusplus
}
#endif
#endif
