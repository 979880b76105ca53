// The logarithm of the sum of the exponentials of integers, in doubles: lines of a dense plain tensor [pieces][count].
//
// inp, out               plain tensors of one type of integers;  type (element_types.clh), itemsize: bytes of an element
// count                  elements of a line;  inner, inner_runs: 1
// pieces, ticket_pieces  lines: in all, of a ticket
//
// y = top + log(sum of exp(x - top)), top the greatest of the line, rounded towards zero. Exponents are integers, so that their
// powers of e are looked up; of those from POWERS - 1 on, 2^31 together are below u / 100, u = 2^-53, and none counts. Error of
// what is rounded, with s = 4 + count / 4 additions: (5 + s) u of the sum, 3 u of its logarithm, 1 u of the result.
//
// scratch: four runs of 8 bytes an element: doubles of x, exponents, powers, and the results of as many lines.
#include "element_types.clh"
#include "double_runs.clh"
#include "greatest_double.clh"

#ifdef cl_khr_fp64
#define POWERS 64

NOINLINE static void exponents_below(__global const double* restrict x, const double top, __global int* restrict y,
                                     const int n) {
  for (int i = 0; i < n; i++) y[i] = (int)double_below(top - x[i], POWERS - 1.0);
}

// The same of integers of 32 bits as they are: no difference of theirs is below 0, or more than 32 bits hold.
NOINLINE static int greatest_of_ints(__global const int* x, const int n) {
  int all = INT_MIN;
  for (int i = 0; i < n; i++) all = max(all, x[i]);
  return all;
}

NOINLINE static void int_exponents_below(__global const int* restrict x, const int top, __global int* restrict y,
                                         const int n) {
  for (int i = 0; i < n; i++) y[i] = (int)min((uint)top - (uint)x[i], POWERS - 1u);
}

NOINLINE static double sum_of_powers(__global const double* powers, __global const int* x, const int n) {
  double a = 0.0, b = 0.0, c = 0.0, e = 0.0;
  int i = 0;
  for (; i + 4 <= n; i += 4) a += powers[x[i]], b += powers[x[i + 1]], c += powers[x[i + 2]], e += powers[x[i + 3]];
  for (; i < n; i++) a += powers[x[i]];
  return (a + b) + (c + e);
}
#endif

static void reduce_exponentials(__global const reduce_exponentials_desc* d, __global char** banks, __global char* scratch,
                                const int ticket, __global const post_step* post, const int posts) {
#ifdef cl_khr_fp64
  const int first = ticket * d->ticket_pieces, last = min(first + d->ticket_pieces, d->pieces), count = d->count;
  __global double *room = (__global double*)scratch, *powers = room + 2 * RUN, *sums = room + 3 * RUN;
  __global int* exponents = (__global int*)(room + RUN);
  for (int i = 0; i < POWERS - 1; i++) powers[i] = double_exp(-(double)i);
  powers[POWERS - 1] = 0.0;
  for (int from = first, lines; from < last; from += lines) {
    lines = min(RUN, last - from);
    for (int l = 0; l < lines; l++) {
      __global const char* x = AT(const char, banks, d->inp) + (long)(from + l) * count * d->itemsize;
      double top = -INFINITY, sum = 0.0;
      if (d->type == TYPE_I32) top = greatest_of_ints((__global const int*)x, count);
      else
        for (int k = 0; k < count; k += RUN) {
          const int n = min(RUN, count - k);
          top = double_above(greatest_double(as_doubles(d->type, x + (long)k * d->itemsize, room, n), n), top);
        }
      for (int k = 0; k < count; k += RUN) {
        const int n = min(RUN, count - k);
        if (d->type == TYPE_I32) int_exponents_below((__global const int*)x + k, (int)top, exponents, n);
        else exponents_below(as_doubles(d->type, x + (long)k * d->itemsize, room, n), top, exponents, n);
        sum += sum_of_powers(powers, exponents, n);
      }
      sums[l] = top + double_log(sum);
    }
    doubles_as(d->type, sums, AT(char, banks, d->out) + (long)from * d->itemsize, lines);
  }
#endif
}
#undef POWERS
