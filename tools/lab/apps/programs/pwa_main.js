document.querySelector('p').textContent = 'drawn by a script'
