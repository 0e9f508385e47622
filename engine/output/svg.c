/* engine/output/svg.c: the common parts of all pictures: text and ticks, for any browser. */
#include "engine/output/svg_inside.h"

#include <math.h>
#include <string.h>

void bt_svg_words(bt_text *text, const char *words, int most)
{
    int count = 0;
    for (const char *c = words; *c; c++) {
        const bool begins = ((unsigned char)*c & 0xc0) != 0x80;
        if (begins && count++ == most) {
            bt_text_add(text, "…");
            return;
        }
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
            bt_text_add(text, "&#%d;", *c);
        else
            bt_text_add(text, "%c", (unsigned char)*c < ' ' ? ' ' : *c);
    }
}

void bt_svg_hint(bt_text *text, const char *words)
{
    bt_text_add(text, "<title>");
    bt_svg_words(text, words, 10000);
    bt_text_add(text, "</title>");
}

void bt_svg_put(bt_text *text, double x, double y, const char *style, const char *words, int most)
{
    bt_text_add(text, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *style ? " " : "", style);
    bt_svg_words(text, words, most);
    if ((int)strlen(words) > most)
        bt_svg_hint(text, words);
    bt_text_add(text, "</text>\n");
}

double bt_svg_step(double range, double unit)
{
    double rough = range / unit / 4, power = pow(10, floor(log10(rough > 0 ? rough : 1))), of = rough / power;
    return (of <= 1 ? 1 : of <= 2 ? 2 : of <= 2.5 ? 2.5 : of <= 5 ? 5 : 10) * power * unit;
}

void bt_svg_close(const bt_text *inner, double width, double height, bt_text *text)
{
    bt_text_add(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
                "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" "
                "fill=\"white\"/>\n%s</svg>\n",
                width, height, width, bt_text_get(inner));
    text->failed = text->failed || inner->failed;
}
