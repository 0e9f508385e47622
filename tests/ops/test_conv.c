/* Convolutions against PyTorch's numbers: values, gradients and Hessian-vector products; one dimension; error
 * messages. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct golden {
    int64_t x[4], w[4];
    bt_conv2d_options options;
    double y[MOST], gradient[3][MOST], product[3][MOST]; /* of x, weight, bias */
} golden;

/* Origin: PyTorch 2.15, float64, torch.nn.functional.conv2d on permuted tensors. Operands are ramps (below): x with
 * step 37, weight 29, bias 53. The loss is the sum of sin(y); products are those of its Hessian with ramps of step
 * 17. */
static const golden goldens[] = {
    {
        .x = {1, 4, 5, 2},
        .w = {2, 3, 1, 4},
        .options = {2, 2, 1, 2, true},
        .y = {-0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.358886383687874,
              -0.0941574355455347,
              -0.413979021664543,
              0.0710224487795314,
              -0.43348691304774,
              0.286295461229291,
              -0.286883638858935,
              0.187775708263896,
              -0.386922850700912,
              0.0949416723850603,
              -0.478531516517988,
              0.292863444760318,
              -0.720468581511617,
              -0.045044603470248,
              -0.686648367807078,
              -0.0879815704342712,
              -0.345946475835702,
              -0.220321537104205,
              -0.352514459366729,
              -0.00661699833349673,
              -0.33432996765023,
              0.334477012057641,
              -0.433241839035389,
              0.376580727379669,
              -0.530340162729144,
              -0.386579747083619,
              -0.476374865209293,
              -0.369816684638761,
              -0.401627291442015,
              0.174296637584551,
              -0.339084403489854,
              0.16008234486815,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742,
              -0.5,
              0.0247524752475248,
              -0.450495049504951,
              0.0742574257425742},
        .gradient[0] = {-0.764213153670252, 0.425456762111042,  -0.380712015333705,  -0.267816339544413,
                        -0.778413900282846, 0.432447974553718,  -0.389568061282118,  -0.27148242168386,
                        -0.692589929237847, 0.419958508918814,  -0.0673103331940522, -0.71424532882477,
                        0.451032008479628,  -0.361898665783483, -0.0498210005754297, -0.684656335612555,
                        0.466577433532284,  -0.337083265849534, -0.0520229864597732, -0.626755257774171,
                        -0.782210839091147, 0.410338740727885,  -0.392813489266862,  -0.253566292752006,
                        -0.740717138028434, 0.422279210598225,  -0.362810598470593,  -0.258995686749953,
                        -0.767000494592749, 0.438252974476922,  -0.062386977345692,  -0.683319488687411,
                        0.44891485516114,   -0.342471222937117, -0.0465634210801151, -0.676320535862168,
                        0.434196896830347,  -0.336296883421238, -0.0473121602449281, -0.709299025879282},
        .gradient[1] = {-0.297168092046693, -0.215928756605361, -0.00235327396910216, -0.0327090356495134,
                        -0.463349832403553, -0.470668959174663, -0.0473246510600095,  -0.0367302672418328,
                        -0.197086876193778, -0.220134195067731, -0.00326114436674861, -0.010989813201736,
                        0.686937978127616,  0.717154568314326,  -0.144506475051098,   -0.0517808599681681,
                        0.181723581020806,  0.181590862497775,  -0.314576010733875,   -0.334244822464139,
                        0.685084090555387,  0.726009933388285,  -0.0584918318048888,  -0.0759889209916629},
        .gradient[2] = {14.2104733724091, 15.7783606510066, 14.4153981440545, 15.7609209494017},
        .product[0] = {-0.876049851411032, 0.305452078127882,  0.493043894074801,  -0.792560588615402,
                       -0.844020095345294, 0.33488511463492,   0.545653474046526,  -0.706350395627879,
                       -0.586555473106775, 0.385444871407325,  -0.820552174596327, 0.46064006601368,
                       0.53304001673057,   -0.757518031969693, -0.862432275086273, 0.515402089554091,
                       0.523856734709804,  -0.673866321228601, -0.771614045128565, 0.466761324164605,
                       -0.836196704987725, 0.347448055570064,  0.535109275376991,  -0.705363037762602,
                       -0.635816174790389, 0.311375943827079,  0.574202095554108,  -0.688283655413091,
                       -0.747037995575105, 0.326430667323303,  -0.810291043134155, 0.456319210388533,
                       0.602757185681062,  -0.716075815725434, -0.985000710603484, 0.527445687779149,
                       0.410342046622243,  -0.635314100175012, -0.786812700346001, 0.457426783974381},
        .product[1] = {-0.888055400646331, -0.945358351541041, 0.161487713548339,  0.154605160484774,
                       -0.41100121810096,  -0.672496029282249, 0.0107761133486879, 0.00309631990004573,
                       -0.781573544083927, -0.715581045206981, 0.155432703853856,  0.168119392179877,
                       -0.838211756375604, -0.587873644344292, 0.202557270697557,  0.183488965620286,
                       -0.742264069225503, -0.681068311783326, -0.164488807585445, -0.109700772379222,
                       -0.92700428781744,  -0.865730916061417, 0.327021558872145,  0.189514326763554},
        .product[2] = {-3.55322036259676, 0.161258997324138, -1.06764603846335, -0.336903548144595},
    },
    {
        .x = {2, 4, 3, 1},
        .w = {2, 2, 1, 2},
        .options = {1, 0, 2, 1, true},
        .y = {-0.0306342515439663, 0.0236251347907068, -0.308303107538477, 0.473532006666013, -0.547250269581414,
              -0.00843054602489951, -0.602146848348201, -0.0486226840505832},
        .gradient[0] = {-0.71257728716278,  0, 0.435507874764527,  -0.665872522731378, 0, 0.392376517127013,
                        -0.415658710802269, 0, -0.267294488358117, -0.392187426216276, 0, -0.223901519317049,
                        -0.639842995478673, 0, 0.424786059426672,  -0.624680461289235, 0, 0.422156176454458,
                        -0.364507895072118, 0, -0.299843303324114, -0.353946848079659, 0, -0.305928360502059},
        .gradient[1] = {-0.974706437930911, -0.965628220465155, 0.00715501885202516, -0.115435242237443,
                        -0.25580332573052, -0.195634817343223, -0.2267917191901, -0.235404972074675},
        .gradient[2] = {3.63046071661198, 3.88846668576575},
        .product[0] = {-0.829937313601218, 0, -0.156585972109851, -0.778245604355353, 0, -0.125328421667136,
                       0.516180437039645,  0, -0.815679544369302, 0.470881967527068,  0, -0.794654157915228,
                       -0.779039477361186, 0, -0.131710543668007, -0.655789876030056, 0, -0.147508350652185,
                       0.475155631692923,  0, -0.730890105519168, 0.544282044627076,  0, -0.755775022726314},
        .product[1] = {-0.877866353572395, -0.984093966274807, 0.360649195407903, 0.388730726379203, -0.872060777768887,
                       -0.932435782794032, 0.385388302646231, 0.364748584931146},
        .product[2] = {-0.152204878022882, 0.0664504922896251},
    },
    {
        .x = {1, 3, 3, 2},
        .w = {3, 3, 2, 1},
        .options = {1, 1, 1, 1, true},
        .y = {-0.0906773845701402, -1.05313204587786, -0.275022056661112, -0.383001666503284, -0.164199588275659,
              -0.392902656602294, -0.730467601215567, -0.280854818155083, -1.00651896872856},
        .gradient[0] = {-0.516294651880496, -0.0335191254563475, -0.230939356321122, -0.67003470230542,
                        -0.289768778907715, 0.182320425637964, -0.898759040256008, -0.417931130970958,
                        -0.304282256435383, 0.00689260349687065, -0.534817773218714, -0.124989625125742,
                        -0.436270418539121, -0.35774709453897, -0.236120650474733, -0.0576383699848734,
                        -0.102623368073107, -0.0854889140583768},
        .gradient[1] = {-0.338142129537741, -0.549015549156136, 0.0100107211584859, -0.611764561585077,
                        0.659400618172751, -0.647770540316251, -0.22199359341883, -0.326629123581105,
                        -0.361345550363837, -0.542272050161272, 0.845894862723268, -1.15274100710461, -0.18048588708039,
                        0.0907782587398506, -0.0592556067465136, -0.502018814993902, 0.521904773277194,
                        -0.708070533691814},
        .gradient[2] = {7.53154751052269},
        .product[0] = {-1.06611656668033, -0.510762372775577, -0.738830834758137, 0.240792073286521,
                       -0.0227197153853348, 0.44245921969424, -1.5515650278616, -0.896826733540334, -0.850824562426508,
                       0.342681928352699, 0.244341862810549, 0.790630076777019, -1.07869762897008, -0.539641116794691,
                       -0.895808311871231, 0.366009209808809, 0.282161689849644, 0.779713292043918},
        .product[1] = {-1.37440222463943, -0.48832785721815, -0.781823897499609, 0.061644249435728, -0.130831245399208,
                       0.87170633205337, -1.57616382532781, -0.636319335762633, -1.25567474275602, 0.0248959822748274,
                       0.103146354104234, 0.936455318984193, -1.0210596331729, -0.374440607416933, -0.907093243883089,
                       0.226290455520069, 0.0420769675519274, 0.569814915904193},
        .product[2] = {-1.35414422691397},
    },
};

/* A variable whose element i is (step i mod 101) / 101 - 1/2. */
static bt_tensor *ramp(scene *s, int step, int rank, const int64_t *dims)
{
    double values[MOST];
    int64_t list[BT_MAX_RANK + 1];
    for (int i = 0; i < MOST; i++)
        values[i] = i * step % 101 / 101.0 - 0.5;
    memcpy(list, dims, (size_t)rank * sizeof *dims);
    list[rank] = BT_END;
    return scene_read(s, "ramp", values, list);
}

static void expect_tensor(scene *s, bt_tensor *y, const double *expected, double tolerance)
{
    ck_assert_int_le(bt_tensor_count(y), MOST);
    s->graph->output_count = 0;
    bt_graph_output(s->graph, y);
    double *found = run_once(s->graph);
    expect_values(__FILE__, __LINE__, found, expected, bt_tensor_count(y), tolerance);
    free(found);
}

START_TEST(golden_values)
{
    const golden *g = &goldens[_i];
    scene s;
    scene_begin(&s, BT_F64);
    bt_tensor *in[] = {ramp(&s, 37, 4, g->x), ramp(&s, 29, 4, g->w), ramp(&s, 53, 1, g->w + 3)};
    bt_tensor *y = bt_conv2d(in[0], in[1], in[2], &g->options), *loss = bt_sum(bt_sin(y));
    bt_tensor *one = bt_ones_like(loss), *v[3], *gradient[3], *forward[3], *reverse[3];
    for (int i = 0; i < 3; i++)
        v[i] = ramp(&s, 17, in[i]->rank, in[i]->dims);
    bt_vjp(s.graph, &loss, &one, 1, in, 3, gradient, false);
    bt_jvp(s.graph, in, v, 3, gradient, 3, forward, false);
    bt_vjp(s.graph, gradient, v, 3, in, 3, reverse, false);
    scene_end(&s);
    expect_tensor(&s, y, g->y, 1e-13);
    for (int i = 0; i < 3; i++) {
        expect_tensor(&s, gradient[i], g->gradient[i], 1e-13);
        expect_tensor(&s, forward[i], g->product[i], 1e-13);
        expect_tensor(&s, reverse[i], g->product[i], 1e-13);
    }
    scene_free(&s);
}
END_TEST

/* [1, 2, 3, 4] with (10, 1): 10 x[i] + x[i + 1], at every second place of 0 1 2 3 4 0. */
START_TEST(one_dimension)
{
    scene s;
    scene_begin(&s, BT_F64);
    bt_tensor *x = bt_reshape(VECTOR(&s, "x", 1, 2, 3, 4), 1, 4, 1);
    bt_tensor *w = bt_reshape(VECTOR(&s, "w", 10, 1), 2, 1, 1), *b = VECTOR(&s, "b", 0.5);
    bt_conv2d_options options = bt_conv2d_defaults();
    bt_tensor *plain = bt_conv1d(x, w, NULL, NULL);
    options.stride = 2;
    options.padding = 1;
    bt_tensor *strided = bt_conv1d(x, w, b, &options);
    options.dilation = 3;
    bt_tensor *dilated = bt_conv1d(x, w, b, &options);
    scene_end(&s);
    ck_assert(plain->rank == 3 && plain->dims[0] == 1 && plain->dims[1] == 3 && plain->dims[2] == 1);
    expect_tensor(&s, plain, NUMBERS(12, 23, 34), 0);
    expect_tensor(&s, strided, NUMBERS(1.5, 23.5, 40.5), 0);
    expect_tensor(&s, dilated, NUMBERS(3.5, 20.5), 0);
    scene_free(&s);
}
END_TEST

/* ---- errors ---- */

static void expect_mistake(scene *s, bt_tensor *y, const char *message)
{
    ck_assert(y && bt_poisoned(y));
    ck_assert_str_eq(s->graph->message, message);
    scene_free(s);
    scene_begin(s, BT_F64);
}

#define SIZES(...)         ((const int64_t[]){__VA_ARGS__})
#define OPERAND(rank, ...) ramp(&s, 1, (rank), SIZES(__VA_ARGS__))
#define OPTIONS(...)       (&(bt_conv2d_options){__VA_ARGS__, true})

START_TEST(mistakes)
{
    scene s;
    scene_begin(&s, BT_F64);
    expect_mistake(&s, bt_conv2d(OPERAND(3, 2, 3, 4), OPERAND(4, 1, 1, 4, 2), NULL, NULL),
                   "conv: x is [2, 3, 4], must be [n, height, width, in]");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 3, 4), OPERAND(2, 4, 2), NULL, NULL),
                   "conv: the weight is [4, 2], must be [height, width, in/groups, out]");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 3, 4), OPERAND(4, 1, 1, 3, 2), NULL, NULL),
                   "conv: x has 4 channels, but 1 groups of the weight's 3 are expected");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 3, 4), OPERAND(4, 1, 1, 2, 3), NULL, OPTIONS(1, 0, 1, 2)),
                   "conv: 3 output channels cannot be divided into 2 groups");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 3, 1, 1), NULL, OPTIONS(1, 0, 2, 1)),
                   "conv: along the width the window of 3, dilation 2, spans 5, but the image of 4 with padding 0 on "
                   "both sides has only 4: use a smaller window or more padding");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 1, 1, 1), NULL, OPTIONS(0, 0, 1, 1)),
                   "conv: stride 0 and dilation 1 along the height, must be 1 to 2147483647");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 1, 1, 1), NULL, OPTIONS(1, INT64_MAX, 1, 1)),
                   "conv: padding 9223372036854775807 along the height, must be 0 to 2147483647");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 1, 1, 1), NULL, OPTIONS(1, 0, 1, 0)),
                   "conv: 0 groups, must be 1 to 2147483647");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 1, 1, 2), OPERAND(1, 3), NULL),
                   "conv_bias: the bias is [3], must be [2], the weight's output channels");
    expect_mistake(&s, bt_conv2d(OPERAND(4, 1, 3, 4, 1), NULL, NULL, NULL), "conv2d: an operand is NULL");
    expect_mistake(&s, bt_conv1d(OPERAND(4, 1, 3, 4, 1), OPERAND(4, 1, 1, 1, 2), NULL, NULL),
                   "conv1d: x [1, 3, 4, 1] with weight [1, 1, 1, 2], must be [n, length, in] with [window, in/groups, "
                   "out]");
    bt_conv_attr attr = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    expect_mistake(&s, bt_conv_dx(OPERAND(4, 1, 3, 4, 2), OPERAND(4, 2, 2, 1, 2), SIZES(5, 5), &attr),
                   "conv_dx: a window of 2 x 2 has 4 x 4 places on an image of 5 x 5, but g is [1, 3, 4, 2]");
    expect_mistake(&s, bt_conv_dw(OPERAND(4, 1, 3, 4, 2), OPERAND(4, 2, 2, 2, 2), SIZES(2, 3), &attr),
                   "conv_dw: x has 1 images, but g has 2");
    scene_free(&s);
}
END_TEST

/* Padding larger than memory is refused at once. */
START_TEST(too_large)
{
    scene s;
    scene_begin(&s, BT_F64);
    int64_t wide = INT32_MAX;
    bt_tensor *y = bt_conv2d(OPERAND(4, 1, 1, 1, 1), OPERAND(4, 1, 1, 1, 8), NULL, OPTIONS(1, wide, 1, 1));
    expect_mistake(&s, y, "the result is too large");
    scene_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: convolution");
    TCase *test = tcase_create("convolution");
    tcase_add_loop_test(test, golden_values, 0, BT_COUNT_OF(goldens));
    tcase_add_test(test, one_dimension);
    tcase_add_test(test, mistakes);
    tcase_add_test(test, too_large);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
