// Softmax of a dense plain tensor of doubles [images][count][inner] along count, or its logarithm. Lines, where inner is 1, run by
// run, or of fewer than FEW elements as many as a run has; else COLUMNS neighbours side by side, each with its own maximum and
// sum. A ticket is a run of lines, or of such columns.
//
// inp, out               doubles
// count, inner           sizes;  inner_runs: runs of COLUMNS of inner
// pieces, ticket_pieces  lines or runs of columns: in all, of a ticket
// logarithm              1: x - max - log(sum of exp(x - max));  0: exp(x - max) / that sum
//
// scratch: four runs of 8 bytes an element. Error, with u = 2^-53, z = |x - max| and s additions (of a line 52 + count / 512,
// else count), relative to the result: (z + 4) u of its exponential, (log count + 4 + s) u of the sum, because the mean of z by
// the weights is at most log count, and 2 u of the quotient. Of the logarithm, absolute: what the sum is off by, z u, and 4 u
// of the sum's logarithm and 1 u of the result. NaN or +infinity makes its line NaN.
#include "element_types.clh"
#include "double_runs.clh"
#include "greatest_double.clh"

#ifdef cl_khr_fp64
#define COLUMNS 128
#define FEW 16

#define EACH(e) \
  for (int i = 0; i < n; i++) e;

NOINLINE static double sum_of_doubles(__global const double* x, const int n) {
  double16 lanes = 0.0;
  int i = 0;
  for (; i + 16 <= n; i += 16) lanes += vload16(0, x + i);
  const double8 a = lanes.lo + lanes.hi;
  const double4 b = a.lo + a.hi;
  double all = (b.s0 + b.s2) + (b.s1 + b.s3);
  for (; i < n; i++) all += x[i];
  return all;
}

NOINLINE static void exponentials(__global const double* restrict x, const double top, __global double* restrict y,
                                  const int n) {
  EACH(y[i] = double_exp(x[i] - top))
}

NOINLINE static void scale_doubles(__global double* y, const double scale, const int n) { EACH(y[i] *= scale) }

NOINLINE static void lower_doubles(__global const double* restrict x, const double top, const double shift,
                                   __global double* restrict y, const int n) {
  EACH(y[i] = x[i] - top - shift)
}

static void softmax_line(__global const double* x, __global double* y, __global double* room, const int count,
                         const int logarithm) {
  const double top = greatest_double(x, count);
  double sum = 0.0;
  for (int first = 0; first < count; first += RUN) {
    const int n = min(RUN, count - first);
    __global double* made = logarithm ? room : y + first;
    exponentials(x + first, top, made, n);
    sum += sum_of_doubles(made, n);
  }
  if (logarithm) lower_doubles(x, top, double_log(sum), y, count);
  else scale_doubles(y, 1.0 / sum, count);
}

// Lines of few elements, at most RUN together: the exponentials of all in one run.
static void softmax_few(__global const double* x, __global double* y, __global double* room, const int count, const int lines,
                        const int logarithm) {
  const int n = lines * count;
  __global double *made = room + RUN, *sum = room + 2 * RUN;
  for (int l = 0; l < lines; l++) {
    double top = -INFINITY;
    for (int i = l * count; i < (l + 1) * count; i++) top = x[i] > top ? x[i] : top;
    for (int i = l * count; i < (l + 1) * count; i++) room[i] = x[i] - top;
  }
  exponentials(room, 0.0, made, n);
  for (int l = 0; l < lines; l++) {
    double all = 0.0;
    for (int i = l * count; i < (l + 1) * count; i++) all += made[i];
    sum[l] = all;
  }
  for (int l = 0; l < lines; l++) sum[l] = logarithm ? double_log(sum[l]) : 1.0 / sum[l];
  for (int l = 0; l < lines; l++)
    for (int i = l * count; i < (l + 1) * count; i++) y[i] = logarithm ? room[i] - sum[l] : made[i] * sum[l];
}

NOINLINE static void raise_tops(__global const double* restrict x, __global double* restrict top, const int n) {
  EACH(top[i] = x[i] > top[i] ? x[i] : top[i])
}

NOINLINE static void add_exponentials(__global const double* restrict x, __global const double* restrict top,
                                      __global double* restrict sum, __global double* restrict y, const int n) {
  for (int i = 0; i < n; i++) {
    const double e = double_exp(x[i] - top[i]);
    y[i] = e;
    sum[i] += e;
  }
}

NOINLINE static void scale_columns(__global double* restrict y, __global const double* restrict scale, const int n) {
  EACH(y[i] *= scale[i])
}

NOINLINE static void lower_columns(__global const double* restrict x, __global const double* restrict top,
                                   __global const double* restrict shift, __global double* restrict y, const int n) {
  EACH(y[i] = x[i] - top[i] - shift[i])
}

static void softmax_columns(__global const double* x, __global double* y, __global double* room, const int count,
                            const long inner, const int n, const int logarithm) {
  __global double* top = room + RUN;
  __global double* sum = room + 2 * RUN;
  EACH((top[i] = -INFINITY, sum[i] = 0.0))
  for (int k = 0; k < count; k++) raise_tops(x + k * inner, top, n);
  for (int k = 0; k < count; k++) add_exponentials(x + k * inner, top, sum, logarithm ? room : y + k * inner, n);
  EACH(sum[i] = logarithm ? double_log(sum[i]) : 1.0 / sum[i])
  for (int k = 0; k < count; k++)
    if (logarithm) lower_columns(x + k * inner, top, sum, y + k * inner, n);
    else scale_columns(y + k * inner, sum, n);
}
#undef EACH
#endif

static void softmax_doubles(__global const softmax_doubles_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
#ifdef cl_khr_fp64
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), count = d->count, inner = d->inner;
  if (inner == 1 && count < FEW) {
    for (int p = ticket * d->ticket_pieces, lines; p < last; p += lines) {
      lines = min(RUN / count, last - p);
      softmax_few(AT(const double, banks, d->inp) + (long)p * count, AT(double, banks, d->out) + (long)p * count,
                  (__global double*)scratch, count, lines, d->logarithm);
    }
    return;
  }
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    const int image = p / d->inner_runs, x0 = (p - image * d->inner_runs) * COLUMNS;
    const long at = (long)image * count * inner + x0;
    __global const double* x = AT(const double, banks, d->inp) + at;
    __global double* y = AT(double, banks, d->out) + at;
    if (inner == 1) softmax_line(x, y, (__global double*)scratch, count, d->logarithm);
    else softmax_columns(x, y, (__global double*)scratch, count, inner, min(COLUMNS, inner - x0), d->logarithm);
  }
#endif
}
#undef COLUMNS
#undef FEW
