/* data/words.h: texts as vectors of word frequencies. */
#ifndef BT_WORDS_H
#define BT_WORDS_H

#include "base/base.h"

/* Reduces a text to lower-case words separated by blanks. ASCII letters and digits, and all bytes beyond ASCII, are
 * kept, so that UTF-8 stays intact. The length does not change. */
void bt_words_normalise(char *text, int64_t length);

typedef struct bt_words bt_words;
bt_words *bt_words_new(void);
void bt_words_free(bt_words *words);

/* Adds a normalised text, from which the vocabulary is taken. */
bt_status bt_words_add(bt_words *words, const char *text, int64_t length);

/* Chooses at most `most` words for the vocabulary: those that occur in the most texts, ties sorted by bytes. Returns
 * their number; 0: no words, or a failure. */
int64_t bt_words_choose(bt_words *words, int64_t most);

/* Writes the tf-idf row of a normalised text, row[size of the vocabulary]: each word's count in it times (log((1 +
 * n)/(1 + d)) + 1), where d of the n texts contain the word. The row is scaled to length 1, or is 0 if no word is
 * known. (As in scikit-learn's TfidfVectorizer.) */
void bt_words_row(const bt_words *words, const char *text, int64_t length, float *row);

#endif
