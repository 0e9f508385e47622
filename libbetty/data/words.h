/* data/words.h: texts as numbers: how often each word of a vocabulary is in them. */
#ifndef BT_WORDS_H
#define BT_WORDS_H

#include "base/base.h"

/* Turns a text into its words, separated by blanks: ASCII letters and digits, and all bytes beyond ASCII, so that UTF-8
 * stays intact; in lower case. As long as before. */
void bt_words_normalise(char *text, int64_t length);

typedef struct bt_words bt_words;
bt_words *bt_words_new(void);
void bt_words_free(bt_words *words);

/* One more text, normalised, to take the vocabulary from. */
bt_status bt_words_add(bt_words *words, const char *text, int64_t length);

/* The vocabulary: at most so many words, those that are in the most texts; of words in equally many, the first in order
 * of their bytes. Returns how many there are; 0: no word, or a failure. */
int64_t bt_words_choose(bt_words *words, int64_t most);

/* The text, normalised, as row[size of the vocabulary]: of each word, how often it occurs times log((1 + n)/(1 + d)) +
 * 1, of the n texts d having it, divided by the length of the row; zeros where no word is known. (tf-idf as in
 * scikit-learn's TfidfVectorizer.) */
void bt_words_row(const bt_words *words, const char *text, int64_t length, float *row);

#endif
