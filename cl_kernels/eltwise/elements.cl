// An elementwise function of tensors of any element types: arithmetic, comparisons, logic, a choice, a conversion.
//
// The tensors are seen as [images][planes][rows][width]; inputs may move differently along each axis, or not at all, elements of a
// row of the result lie side by side. A ticket is a run of pieces, a piece at most `run` elements of a row, or `fold` whole rows.
// They are converted to the type that is computed with (where they are of another one), computed and converted to the result's.
//
// a, b, c, out               c is the condition of a choice, or the zero points of a quantization, in the result's type;
//                            inputs that the function has not are CLGRAPH_NULL
// a_n, a_c, a_y, a_x, ...    elements from one image, plane, row, element to the next
// a_type, b_type, out_type   element types (element_types.clh);  a_size, b_size, out_size: bytes of an element
// domain                     what is computed with: 0 float, 2 int, 4 bytes, 5 bits of halves, 6 16-bit integers (of bytes,
//                            too, that become them, or the other way round), 7 bytes with scales; where NUMBERS is 1: 0 the arc
//                            cosine of floats, too, 1 double, 3 long
// direct                     1: the result is of that type, or a comparison's
// operation                  FUNCTION_...; from FUNCTION_ANGLE on the function of double_angles.clh, from FUNCTION_POST on the
//                            post-operation of that code, of floats or doubles
// first, second              its parameters, or the bounds of a clip or a quantization: the bits of numbers that are computed
//                            with; a mask, and what the bits under it are compared with; two floats each of bytes with scales;
//                            of halves second is 1 of a sign, and has the bits of infinity above the lower 16
// planes, rows, width        of the result;  run: elements of a piece;  row_pieces, pieces, ticket_pieces: pieces of a row, all, a ticket
// fold, folds                rows of a piece, of rows that lie one behind the other in the result, with one piece and no list;
//                            runs of so many in a plane
//
// Integers divide towards zero, by zero to 0, and wrap. Error: none of integers; floats are rounded once by the function and
// once by the conversion; arcs of floats as in float_angles.clh, powers of floats as in post_apply.clh, functions of doubles as in
// double_runs.clh, double_angles.clh and double_power.clh. A shift by all bits, more, or a negative number of them leaves 0, to
// the right of what is negative -1. The list follows where the result is float; n is the image, c the plane, y the row, x the
// 16-float vector. Of doubles it holds sums, differences and products with doubles.
//
// NUMBERS (0): the domains that few networks need, too, as tile function number_elements.
#include "element_types.clh"
#include "integer_quotients.clh"
#include "double_runs.clh"
#include "double_steps.clh"
#include "double_power.clh"
#include "double_angles.clh"
#include "float_remainders.clh"
#include "float_angles.clh"
#include "float_steps.clh"
#include "half_bits.clh"
#include "quantized_pairs.clh"

#ifndef NUMBERS
  #define NUMBERS 0
#endif
#define FUNCTION_SAME 0
#define FUNCTION_ADD 1
#define FUNCTION_SUB 2
#define FUNCTION_MUL 3
#define FUNCTION_DIV 4
#define FUNCTION_MIN 5
#define FUNCTION_MAX 6
#define FUNCTION_EQUAL 7
#define FUNCTION_LESS 8
#define FUNCTION_LESS_EQUAL 9
#define FUNCTION_AND 10
#define FUNCTION_OR 11
#define FUNCTION_XOR 12
#define FUNCTION_MOD 13
#define FUNCTION_FMOD 14
#define FUNCTION_CHOICE 15
#define FUNCTION_NEG 16
#define FUNCTION_ABS 17
#define FUNCTION_NOT 18
// Of signed bytes and 16-bit integers, in their domains; in those of int and long the same codes are of unsigned ones.
#define FUNCTION_SIGNED_MIN 19
#define FUNCTION_SIGNED_MAX 20
#define FUNCTION_SIGNED_LESS 21
#define FUNCTION_SIGNED_LESS_EQUAL 22
#define FUNCTION_SIGNED_NEG 23
#define FUNCTION_SIGNED_ABS 24
#define FUNCTION_SIGNED_CLIP 25
#define FUNCTION_UNSIGNED_MIN 19
#define FUNCTION_UNSIGNED_MAX 20
#define FUNCTION_UNSIGNED_LESS 21
#define FUNCTION_UNSIGNED_LESS_EQUAL 22
#define FUNCTION_UNSIGNED_DIV 23
#define FUNCTION_UNSIGNED_MOD 24
#define FUNCTION_UNSIGNED_CLIP 25
#define FUNCTION_CLIP 26
#define FUNCTION_SHIFT_LEFT 27
#define FUNCTION_SHIFT_RIGHT 28
#define FUNCTION_POW 31
#define FUNCTION_QUANTIZE 32
#define FUNCTION_QUANTIZED_SUM 33
#define FUNCTION_QUANTIZED_PRODUCT 34
#define FUNCTION_UNSIGNED_SHIFT_RIGHT 35
#define FUNCTION_ANGLE 40
#define FUNCTION_POST 64

// y[i] = e for all i, in a type; comparisons are of bytes.
#define ALL(e) \
  { \
    for (int i = 0; i < n; i++) y[i] = (e); \
    return; \
  }
#define TESTS(e) \
  { \
    __global uchar* z = (__global uchar*)y; \
    for (int i = 0; i < n; i++) z[i] = (e); \
    return; \
  }

// c ? a : b by their bits, both loaded: a choice of loads takes five times as long for bytes, twice for ints (LLVM 14).
#define CHOSEN(T, c, a, b) ((b) ^ (((a) ^ (b)) & (T)((c) ? -1 : 0)))

#ifdef cl_khr_fp64
// Whether the quotients or rests of n longs are those of few bits, which are written then.
NOINLINE static int of_few(const int function, __global const long* restrict a, __global const long* restrict b,
                           __global long* restrict y, const int n) {
  if ((function != FUNCTION_DIV && function != FUNCTION_MOD && function != FUNCTION_FMOD) || !are_few(a, b, n)) return 0;
  if (function == FUNCTION_DIV)
    for (int i = 0; i < n; i++) y[i] = divided_few(a[i], b[i]);
  else if (function == FUNCTION_MOD)
    for (int i = 0; i < n; i++) y[i] = modulo_few(a[i], b[i]);
  else
    for (int i = 0; i < n; i++) y[i] = rest_few(a[i], b[i]);
  return 1;
}
#else
static int of_few(const int function, __global const long* a, __global const long* b, __global long* y, const int n) {
  return 0;
}
#endif

#define INTEGERS(NAME, T, divided) \
  NOINLINE static void NAME(const int function, const T low, const T high, __global const T* restrict a, \
                            __global const T* restrict b, __global const uchar* restrict c, __global T* restrict y, \
                            const int n) { \
    switch (function) { \
    case FUNCTION_ADD: ALL((T)((u##T)a[i] + (u##T)b[i])) \
    case FUNCTION_SUB: ALL((T)((u##T)a[i] - (u##T)b[i])) \
    case FUNCTION_MUL: ALL((T)((u##T)a[i] * (u##T)b[i])) \
    case FUNCTION_DIV: ALL(divided(a[i], b[i])) \
    case FUNCTION_MIN: ALL(min(a[i], b[i])) \
    case FUNCTION_MAX: ALL(max(a[i], b[i])) \
    case FUNCTION_EQUAL: TESTS(a[i] == b[i]) \
    case FUNCTION_LESS: TESTS(a[i] < b[i]) \
    case FUNCTION_LESS_EQUAL: TESTS(a[i] <= b[i]) \
    case FUNCTION_AND: ALL(a[i] & b[i]) \
    case FUNCTION_OR: ALL(a[i] | b[i]) \
    case FUNCTION_XOR: ALL(a[i] ^ b[i]) \
    case FUNCTION_MOD: ALL(modulo_##T(a[i], b[i])) \
    case FUNCTION_FMOD: ALL(rest_##T(a[i], b[i])) \
    case FUNCTION_CHOICE: ALL(CHOSEN(T, c[i], a[i], b[i])) \
    case FUNCTION_NEG: ALL((T)(0 - (u##T)a[i])) \
    case FUNCTION_ABS: ALL(a[i] < 0 ? (T)(0 - (u##T)a[i]) : a[i]) \
    case FUNCTION_CLIP: ALL(min(max(a[i], low), high)) \
    case FUNCTION_SHIFT_LEFT: ALL((u##T)b[i] < 8 * sizeof(T) ? (T)((u##T)a[i] << b[i]) : 0) \
    case FUNCTION_SHIFT_RIGHT: ALL(a[i] >> ((u##T)b[i] < 8 * sizeof(T) ? b[i] : 8 * sizeof(T) - 1)) \
    case FUNCTION_UNSIGNED_MIN: ALL((T)min((u##T)a[i], (u##T)b[i])) \
    case FUNCTION_UNSIGNED_MAX: ALL((T)max((u##T)a[i], (u##T)b[i])) \
    case FUNCTION_UNSIGNED_LESS: TESTS((u##T)a[i] < (u##T)b[i]) \
    case FUNCTION_UNSIGNED_LESS_EQUAL: TESTS((u##T)a[i] <= (u##T)b[i]) \
    case FUNCTION_UNSIGNED_DIV: ALL(b[i] ? (T)((u##T)a[i] / (u##T)b[i]) : 0) \
    case FUNCTION_UNSIGNED_MOD: ALL(b[i] ? (T)((u##T)a[i] % (u##T)b[i]) : 0) \
    case FUNCTION_UNSIGNED_CLIP: ALL((T)min(max((u##T)a[i], (u##T)low), (u##T)high)) \
    case FUNCTION_UNSIGNED_SHIFT_RIGHT: ALL((u##T)b[i] < 8 * sizeof(T) ? (T)((u##T)a[i] >> b[i]) : 0) \
    case FUNCTION_BITS_EQUAL: TESTS((a[i] & low) == high) \
    case FUNCTION_BITS_ABOVE: TESTS((a[i] & low) > high) \
    } \
  }
INTEGERS(of_ints, int, divided_int)
INTEGERS(of_longs, long, divided_long)

// Bytes and 16-bit integers: U is unsigned, S signed.
#define NARROW(NAME, U, S) \
  NOINLINE static void NAME(const int function, const U low, const U high, __global const U* restrict a, \
                            __global const U* restrict b, __global const uchar* restrict c, __global U* restrict y, \
                            const int n) { \
    switch (function) { \
    case FUNCTION_SAME: ALL(a[i]) \
    case FUNCTION_ADD: ALL((U)(a[i] + b[i])) \
    case FUNCTION_SUB: ALL((U)(a[i] - b[i])) \
    case FUNCTION_MUL: ALL((U)((uint)a[i] * b[i])) \
    case FUNCTION_MIN: ALL(min(a[i], b[i])) \
    case FUNCTION_MAX: ALL(max(a[i], b[i])) \
    case FUNCTION_EQUAL: TESTS(a[i] == b[i]) \
    case FUNCTION_LESS_EQUAL: TESTS(a[i] <= b[i]) \
    case FUNCTION_LESS: TESTS(a[i] < b[i]) \
    case FUNCTION_AND: ALL(a[i] & b[i]) \
    case FUNCTION_OR: ALL(a[i] | b[i]) \
    case FUNCTION_XOR: ALL(a[i] ^ b[i]) \
    case FUNCTION_CHOICE: ALL(CHOSEN(U, c[i], a[i], b[i])) \
    case FUNCTION_NOT: ALL(a[i] ^ 1) \
    case FUNCTION_SIGNED_MIN: ALL((U)min((S)a[i], (S)b[i])) \
    case FUNCTION_SIGNED_MAX: ALL((U)max((S)a[i], (S)b[i])) \
    case FUNCTION_SIGNED_LESS: TESTS((S)a[i] < (S)b[i]) \
    case FUNCTION_SIGNED_LESS_EQUAL: TESTS((S)a[i] <= (S)b[i]) \
    case FUNCTION_SIGNED_NEG: ALL((U)-a[i]) \
    case FUNCTION_SIGNED_ABS: ALL((S)a[i] < 0 ? (U)-a[i] : a[i]) \
    case FUNCTION_SIGNED_CLIP: ALL((U)min(max((S)a[i], (S)low), (S)high)) \
    case FUNCTION_CLIP: ALL(min(max(a[i], low), high)) \
    case FUNCTION_SHIFT_LEFT: ALL(b[i] < 8 * sizeof(U) ? (U)(a[i] << b[i]) : 0) \
    case FUNCTION_SHIFT_RIGHT: ALL(b[i] < 8 * sizeof(U) ? (U)(a[i] >> b[i]) : 0) \
    } \
  }
NARROW(of_bytes, uchar, char)
NARROW(of_shorts, ushort, short)

// A NaN of either side is the result of a minimum and a maximum.
#define FLOATS(NAME, T) \
  NOINLINE static void NAME(const int function, __global const T* restrict a, __global const T* restrict b, \
                            __global T* restrict y, const int n) { \
    switch (function) { \
    case FUNCTION_ADD: ALL(a[i] + b[i]) \
    case FUNCTION_SUB: ALL(a[i] - b[i]) \
    case FUNCTION_MUL: ALL(a[i] * b[i]) \
    case FUNCTION_DIV: ALL(a[i] / b[i]) \
    case FUNCTION_MIN: ALL(a[i] < b[i] || a[i] != a[i] ? a[i] : b[i]) \
    case FUNCTION_MAX: ALL(a[i] > b[i] || a[i] != a[i] ? a[i] : b[i]) \
    case FUNCTION_EQUAL: TESTS(a[i] == b[i]) \
    case FUNCTION_LESS: TESTS(a[i] < b[i]) \
    case FUNCTION_LESS_EQUAL: TESTS(a[i] <= b[i]) \
    case FUNCTION_FMOD: rests_##T(a, b, y, n); return; \
    case FUNCTION_NEG: ALL(-a[i]) \
    case FUNCTION_ABS: ALL(fabs(a[i])) \
    } \
  }
FLOATS(of_floats, float)
#ifdef cl_khr_fp64
FLOATS(of_doubles, double)
#endif

NOINLINE static void float_powers(__global const float* a, __global const float* b, __global float* y, const int n) {
  for (int i = 0, lanes = min(16, n); i < n; i += 16, lanes = min(16, n - i))
    store_lanes(y + i, post_pow(load_lanes(a + i, 1, lanes), load_lanes(b + i, 1, lanes)), lanes);
}

// The post-operation of this code, which reads nothing else; `step` is room for it.
NOINLINE static void post_floats(const int code, const float first, const float second, __global const float* a,
                                 __global float* y, const int n, __global post_step* step) {
  const int whole = n / 16, rest = n % 16;
  step->operand = CLGRAPH_NULL;
  step->code = code;
  step->pitch_n = step->pitch_c = step->pitch_y = step->pitch_x = step->pitch_l = 0;
  step->a = first;
  step->b = second;
  if (whole) post_row_from(step, 1, 0, a, y, 0, 0, 0, 0, whole, 16, 0);
  if (rest) post_row_from(step, 1, 0, a + whole * 16, y + whole * 16, 0, 0, 0, 0, 1, rest, 0);
}

typedef struct {
  __global const char* element;  // what a room is full of, so many times
  int times;
} room_content;

// Where a piece of an input begins: at its elements, or at copies of them side by side in `room`.
static __global const char* run_of(__global const elements_desc* d, __global char** banks, const long p, const long at,
                                   const long row_pitch, const long pitch, const int size, __global char* room, const int n,
                                   room_content* held) {
  if (p == CLGRAPH_NULL) return room;
  __global const char* from = AT(const char, banks, p) + at * size;
  if (d->fold > 1 && row_pitch != pitch * d->width) {
    gather_short_rows(from, row_pitch, pitch, d->width, size, room, n);
    return room;
  }
  if (pitch == 1) return from;
  if (pitch == 0 && held->element == from && held->times >= n) return room;
  gather_run(from, pitch, size, room, n);
  held->element = pitch == 0 ? from : 0;
  held->times = n;
  return room;
}

// n zero points as floats, in `room` or where they are.
static __global const float* zeros_of(__global const elements_desc* d, __global const char* c, __global float* room, const int n) {
  if (d->c != CLGRAPH_NULL) return as_floats(d->out_type, c, room, n);
  for (int i = 0; i < n; i++) room[i] = 0.0f;
  return room;
}

// n bytes as 16-bit integers, or the other way round, which are the lower halves of these.
NOINLINE static void resize_narrow(const int type, __global const char* restrict a, __global char* restrict out, const int n) {
#define EACH(T, U) \
  for (int i = 0; i < n; i++) ((__global U*)out)[i] = (U)((__global const T*)a)[i];
  if (type == TYPE_I8) EACH(char, ushort)
  else if (type == TYPE_U8 || type == TYPE_BOOL) EACH(uchar, ushort)
  else EACH(ushort, uchar)
#undef EACH
}

static void elements(__global const elements_desc* d, __global char** banks, __global char* scratch, const int ticket,
                     __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), function = d->operation;
  const int c_size = function == FUNCTION_QUANTIZE ? d->out_size : 1;
  const int by_one = function == FUNCTION_QUANTIZE && d->b_x == 0 && d->c_x == 0;
  const int shared = function == FUNCTION_SUB && d->domain == 0 && d->b_x == 0 && d->fold <= 1;
  __global char* rooms[7];
  room_content held[3];
  for (int i = 0; i < 7; i++) rooms[i] = scratch + i * RUN * 8;
  for (int i = 0; i < 3; i++) held[i].element = 0;
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    const int run = p / d->row_pieces, x0 = (p - run * d->row_pieces) * d->run;
    const int of_all = run / d->folds, image = of_all / d->planes, plane = of_all - image * d->planes;
    const long y0 = (run - of_all * d->folds) * d->fold;
    const int n = d->fold > 1 ? min(d->fold, d->rows - (int)y0) * d->width : min(d->run, d->width - x0);
    const int others = by_one || shared ? 1 : n;
#define PLACE(t) (image * d->t##_n + plane * d->t##_c + y0 * d->t##_y + (long)x0 * d->t##_x)
    __global const char* a = run_of(d, banks, d->a, PLACE(a), d->a_y, d->a_x, d->a_size, rooms[0], n, &held[0]);
    __global const char* b = run_of(d, banks, d->b, PLACE(b), d->b_y, d->b_x, d->b_size, rooms[1], others, &held[1]);
    __global const uchar* c = (__global const uchar*)run_of(d, banks, d->c, PLACE(c), d->c_y, d->c_x, c_size, rooms[2], others, &held[2]);
    __global char* out = AT(char, banks, d->out) + (image * d->out_n + plane * d->out_c + y0 * d->out_y + x0) * d->out_size;
    // What is of the result's type is written where it belongs; comparisons are, too.
    __global char* y = d->direct ? out : rooms[5];
    __global char* u = d->direct && function == FUNCTION_SAME ? out : rooms[3];
#define COMPUTE(T, as_type, type_as, ...) \
  { \
    __global const T* first = as_type(d->a_type, a, (__global T*)u, n); \
    if (function == FUNCTION_SAME) { \
      if ((__global const char*)first != out) type_as(d->out_type, first, out, n); \
    } else { \
      __VA_ARGS__; \
      if (!d->direct) type_as(d->out_type, (__global const T*)y, out, n); \
    } \
    break; \
  }
#define SECOND(T, as_type) as_type(d->b_type, b, (__global T*)rooms[4], n)
    switch (d->domain) {
    case 0:
      if (by_one) {
        quantize_by_one(as_floats(d->a_type, a, (__global float*)rooms[3], n), *as_floats(d->b_type, b, (__global float*)rooms[4], 1),
                        *zeros_of(d, (__global const char*)c, (__global float*)rooms[6], 1), as_float((int)d->first),
                        as_float((int)d->second), out, d->out_size, n);
        break;
      }
      COMPUTE(float, as_floats, floats_as,
              if (function == FUNCTION_QUANTIZE)
                quantize_floats(first, SECOND(float, as_floats),
                                zeros_of(d, (__global const char*)c, (__global float*)rooms[6], n),
                                as_float((int)d->first), as_float((int)d->second), (__global float*)y, n);
              else if (function == FUNCTION_POW) float_powers(first, SECOND(float, as_floats), (__global float*)y, n);
              else if (shared)
                less_shared(first, *as_floats(d->b_type, b, (__global float*)rooms[4], 1), (__global float*)y, n);
              else if (function < FUNCTION_ANGLE) of_floats(function, first, SECOND(float, as_floats), (__global float*)y, n);
              else if (NUMBERS && function < FUNCTION_POST) arcs(function - FUNCTION_ANGLE, first, (__global float*)y, n);
              else post_floats(function - FUNCTION_POST, as_float((int)d->first), as_float((int)d->second), first, (__global float*)y, n,
                               (__global post_step*)rooms[2]))
    case 2:
      COMPUTE(int, as_ints, ints_as,
              of_ints(function, (int)d->first, (int)d->second, first, SECOND(int, as_ints), c, (__global int*)y, n))
    case 4:
      of_bytes(function, (uchar)d->first, (uchar)d->second, (__global const uchar*)a, (__global const uchar*)b, c,
               (__global uchar*)out, n);
      break;
    case 5:
      of_halves(function, (ushort)d->first, (ushort)d->second, (ushort)(d->second >> 16), (__global const ushort*)a, (__global ushort*)out, n);
      break;
    case 6:
      if (function == FUNCTION_SAME && d->a_size != d->out_size) {
        resize_narrow(d->a_type, a, out, n);
        break;
      }
      of_shorts(function, (ushort)d->first, (ushort)d->second, (__global const ushort*)a, (__global const ushort*)b, c,
                (__global ushort*)out, n);
      break;
    case 7: {
      const float4 f = as_float4((long2)(d->first, d->second));
      __global float* room = (__global float*)rooms[3];
      if (d->a_type == TYPE_I8)
        pairs_of_char(function == FUNCTION_QUANTIZED_PRODUCT, d->b_x == 0, f, (__global const char*)a, (__global const char*)b, room, out, -128.0f, 127.0f, n);
      else
        pairs_of_uchar(function == FUNCTION_QUANTIZED_PRODUCT, d->b_x == 0, f, (__global const uchar*)a, (__global const uchar*)b, room, (__global uchar*)out, 0.0f,
                       255.0f, n);
      break;
    }
#if NUMBERS
    case 3:
      COMPUTE(long, as_longs, longs_as,
              __global const long* second = SECOND(long, as_longs);
              if (!of_few(function, first, second, (__global long*)y, n))
                of_longs(function, d->first, d->second, first, second, c, (__global long*)y, n))
#endif
#if NUMBERS && defined(cl_khr_fp64)
    case 1:
      COMPUTE(double, as_doubles, doubles_as,
              if (function == FUNCTION_POW) powers_run(first, SECOND(double, as_doubles), (__global double*)y, n);
              else if (function < FUNCTION_ANGLE) of_doubles(function, first, SECOND(double, as_doubles), (__global double*)y, n);
              else if (function < FUNCTION_POST) angles_run(function - FUNCTION_ANGLE, first, (__global double*)y, n);
              else doubles_run(function - FUNCTION_POST, as_double(d->first), as_double(d->second), first,
                               (__global double*)y, n))
#endif
    }
    if (!posts) continue;
#if NUMBERS && defined(cl_khr_fp64)
    if (d->domain == 1 && d->direct) {
      double_steps(post, posts, banks, (__global double*)out, image, plane, y0, x0, n);
      continue;
    }
#endif
    const int whole = n / 16, rest = n % 16;
    if (whole) post_row(post, posts, banks, (__global float*)out, image, plane, y0, x0 / 16, whole, 16, 0);
    if (rest) post_row(post, posts, banks, (__global float*)out + whole * 16, image, plane, y0, x0 / 16 + whole, 1, rest, 0);
  }
}
#undef ALL
#undef TESTS
#undef PLACE
#undef COMPUTE
#undef SECOND
