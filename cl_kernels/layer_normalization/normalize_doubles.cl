// (x - mean) / sqrt(variance + epsilon) * scale + bias for each row of a plain tensor of doubles. A ticket is a run of rows.
//
// The tensor is seen as in normalize_rows.cl, whose parameters these are, but for
// inp, out, scale, bias   doubles
// epsilon                 the bits of a double
//
// Error relative to |result| + |scale|: k / 16 + 16 roundings of 2^-53 times max |x - mean| / deviation, for rows of k inputs
// whose mean is not large against their deviation.
#include "tile.clh"

#ifdef cl_khr_fp64
NOINLINE static double sum_of_lanes(const double16 lanes) {
  const double8 a = lanes.lo + lanes.hi;
  const double4 b = a.lo + a.hi;
  return (b.s0 + b.s2) + (b.s1 + b.s3);
}

NOINLINE static double sum_of_row(__global const double* x, const int n) {
  double16 lanes = 0.0;
  double rest = 0.0;
  int i = 0;
  for (; i + 16 <= n; i += 16) lanes += vload16(0, x + i);
  for (; i < n; i++) rest += x[i];
  return sum_of_lanes(lanes) + rest;
}

NOINLINE static double squares_of_row(__global const double* x, const double mean, const int n) {
  double16 lanes = 0.0;
  double rest = 0.0;
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const double16 v = vload16(0, x + i) - mean;
    lanes = fma(v, v, lanes);
  }
  for (; i < n; i++) rest = fma(x[i] - mean, x[i] - mean, rest);
  return sum_of_lanes(lanes) + rest;
}

NOINLINE static void scale_by_one(__global const double* restrict x, const double mean, const double factor, const double scale,
                                  const double shift, __global double* restrict y, const int n) {
  for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * scale + shift;
}

NOINLINE static void scale_by_each(__global const double* restrict x, const double mean, const double factor,
                                   __global const double* restrict scale, const double shift, __global double* restrict y,
                                   const int n) {
  for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * scale[i] + shift;
}

NOINLINE static void shift_each(__global const double* restrict bias, __global double* restrict y, const int n) {
  for (int i = 0; i < n; i++) y[i] += bias[i];
}
#endif

static void normalize_doubles(__global const normalize_doubles_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
#ifdef cl_khr_fp64
  const int width = d->width, count = d->parts * width, last = min((ticket + 1) * d->ticket_rows, d->lines);
  for (int line = ticket * d->ticket_rows; line < last; line++) {
    const int n = line / d->rows, y = line - n * d->rows;
    __global const double* in = AT(const double, banks, d->inp) + (long)line * count;
    __global double* out = AT(double, banks, d->out) + (long)line * count;
    const double mean = d->centred ? sum_of_row(in, count) / count : 0.0;
    const double factor = 1.0 / sqrt(squares_of_row(in, mean, count) / count + as_double(d->epsilon));
    for (int c = 0; c < d->parts; c++, in += width, out += width) {
#define PLACE(t) (AT(const double, banks, d->t) + (long)n * d->t##_n + (long)y * d->t##_y + (long)c * d->t##_c)
      __global const double *scale = PLACE(scale), *bias = d->bias == CLGRAPH_NULL ? 0 : PLACE(bias);
      const int shifts = bias && d->bias_x;
      const double shift = bias && !shifts ? *bias : 0.0;
      if (d->scale_x) scale_by_each(in, mean, factor, scale, shift, out, width);
      else scale_by_one(in, mean, factor, *scale, shift, out, width);
      if (shifts) shift_each(bias, out, width);
    }
  }
#endif
}
#undef PLACE
