export const word = 'first word'
