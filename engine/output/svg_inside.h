/* engine/output/svg_inside.h: shared by the files that draw. */
#ifndef BT_SVG_INSIDE_H
#define BT_SVG_INSIDE_H

#include "engine/output/svg.h"

#define BT_SVG_LETTER 6.9 /* an upper bound on the mean width of a character at font-size 13 */

/* Words, cut after `most` characters; all of them appear when the pointer rests there. */
void bt_svg_put(bt_text *text, double x, double y, const char *style, const char *words, int most);

/* Words that appear when the pointer rests on the open element. */
void bt_svg_hint(bt_text *text, const char *words);

/* 1, 2, 2.5 or 5 times a power of ten units, so that about four steps cover the range. */
double bt_svg_step(double range, double unit);

/* Adds the whole file around what has been drawn. */
void bt_svg_close(const bt_text *inner, double width, double height, bt_text *text);

#endif
