import { word } from './word.js'

const [button, text] = [document.querySelector('button'), document.querySelector('p')]
let pressed = 0
const draw = () => {
  button.textContent = `pressed ${pressed}`
}
button.addEventListener('click', () => {
  pressed++
  draw()
})
draw()
text.textContent = word
import.meta.hot.accept('./word.js', changed => {
  text.textContent = changed.word
})
