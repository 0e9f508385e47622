/* betty/text.h: tokenisers: text as numbers, and back */
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

#ifdef __cplusplus
}
#endif
#endif
